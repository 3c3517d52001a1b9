#include "train/final_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <span>

#include "data/text/parallel_text.h"
#include "data/text/repadded_set.h"
#include "data/text/tokenizer.h"
#include "metrics/auc.h"
#include "metrics/beam_search.h"
#include "metrics/bleu.h"
#include "metrics/predictor.h"

namespace trireme {
namespace {

constexpr size_t kSamplesAtATime = 128;  // rows of one forward pass

/// Predictors for the samples of a set, all with the same weights. Their length is the set's padded length or, if the
/// experiment sets pad_to_multiple_of, only the length that the given samples need.
class Predictors {
 public:
  /// All arguments except the weights must outlive this object.
  Predictors(const Experiment& experiment, const Model& model, const std::shared_ptr<const Dataset>& set,
             const TensorMap& weights)
      : experiment_(experiment), set_(*set), whole_(model, weights, experiment.precision) {
    if (experiment.pad_to_multiple_of > 0) padded_ = std::dynamic_pointer_cast<const PaddedSet>(set);
  }

  /// Returns all samples; those of similar length are adjacent.
  std::vector<int64_t> order() const {
    std::vector<int64_t> indices(size_t(set_.size()));
    std::iota(indices.begin(), indices.end(), int64_t{0});
    const auto shorter = [&](int64_t a, int64_t b) { return padded_->parts(a).first < padded_->parts(b).first; };
    if (padded_) std::stable_sort(indices.begin(), indices.end(), shorter);
    return indices;
  }

  /// Returns the lengths to which these samples are padded; {} if the set is always padded to its full length.
  PartLengths lengths(std::span<const int64_t> indices) const {
    return padded_ ? parts_for(*padded_, indices, experiment_.pad_to_multiple_of) : PartLengths{};
  }

  /// Returns the padded length for a sentence of `tokens` tokens, at most `longest`.
  int64_t room_for(int64_t tokens, int64_t longest) const {
    const int64_t multiple = experiment_.pad_to_multiple_of;
    return padded_ ? std::min(longest, (tokens + multiple - 1) / multiple * multiple) : longest;
  }

  Samples load(std::span<const int64_t> indices) const {
    return padded_ ? padded_->get_padded(indices, lengths(indices)) : set_.get(indices, Draw{});
  }

  /// Returns the predictor for samples of these lengths. Valid until the next call with other lengths.
  Predictor& of(const PartLengths& lengths) {
    if (!padded_ || lengths == padded_->padded_parts()) return whole_;
    if (shorter_ && lengths == lengths_) return *shorter_;
    shorter_.reset();
    model_.emplace(build_model(experiment_, RepaddedSet(padded_, lengths)));
    shorter_.emplace(*model_, whole_);
    lengths_ = lengths;
    return *shorter_;
  }

 private:
  const Experiment& experiment_;
  const Dataset& set_;
  std::shared_ptr<const PaddedSet> padded_;  ///< the set if it can be padded to shorter lengths; otherwise null
  Predictor whole_;
  PartLengths lengths_;  ///< lengths of `model_` and `shorter_`
  std::optional<Model> model_;
  std::optional<Predictor> shorter_;
};

std::vector<Metric> measure_auc(Predictors& predictors, const std::function<bool()>& stop) {
  std::vector<double> scores;
  std::vector<int64_t> labels;
  const std::vector<int64_t> order = predictors.order();
  for (size_t first = 0; first < order.size(); first += kSamplesAtATime) {
    if (stop()) return {};
    const auto indices = std::span(order).subspan(first, std::min(kSamplesAtATime, order.size() - first));
    const Samples samples = predictors.load(indices);
    const at::Tensor logits =
        predictors.of(predictors.lengths(indices)).predict(samples.data).to(at::kDouble).contiguous();
    for (int64_t i = 0; i < logits.size(0); ++i) {
      scores.push_back(logits.data_ptr<double>()[2 * i + 1] - logits.data_ptr<double>()[2 * i]);
      labels.push_back(samples.target.data_ptr<int64_t>()[i]);
    }
  }
  return {{"auc", area_under_roc(scores, labels)}};
}

/// Returns a function that computes the scores of the tokens after prefixes. `source` is [sentences, S]; each sentence
/// has `beam` rows.
NextToken next_token_of(Predictors& predictors, const at::Tensor& source, const BeamOptions& options) {
  return [&predictors, sources = source.repeat_interleave(options.beam, 0),
          longest = options.longest](const at::Tensor& prefixes) {
    const int64_t length = prefixes.size(1), first = sources.size(1), given = predictors.room_for(length, longest);
    at::Tensor data = at::full({sources.size(0), first + given}, int64_t{kPadding}, at::kLong);
    data.narrow(1, 0, first).copy_(sources);
    data.narrow(1, first, length).copy_(prefixes);
    const at::Tensor logits = predictors.of({first, given}).predict_again(data).select(1, length - 1).to(at::kDouble);
    at::Tensor scores = at::_log_softmax(logits, 1, /*half_to_float=*/false);
    // Padding and a second begin token never continue a sentence.
    for (const int64_t never : {int64_t{kPadding}, int64_t{kBeginToken}})
      scores.select(1, never).fill_(-std::numeric_limits<double>::infinity());
    return scores;
  };
}

std::vector<Metric> measure_bleu(const Experiment& experiment, Predictors& predictors, const TranslationSet& test,
                                 const std::function<bool()>& stop) {
  const BeamOptions options{.beam = experiment.beam,
                            .length_penalty = experiment.length_penalty,
                            .begin = kBeginToken,
                            .end = kEndToken,
                            .longest = test.target_length()};
  const size_t at_a_time = std::max<size_t>(1, kSamplesAtATime / size_t(options.beam));
  std::vector<std::string> hypotheses, references;
  const std::vector<int64_t> order = predictors.order();
  for (size_t first = 0; first < order.size(); first += at_a_time) {
    const auto indices = std::span(order).subspan(first, std::min(at_a_time, order.size() - first));
    const Samples samples = predictors.load(indices);
    const int64_t source_length = samples.data.size(1) - samples.target.size(1);
    bool stopped = false;
    const NextToken next = next_token_of(predictors, samples.data.narrow(1, 0, source_length), options);
    const auto sentences = beam_search(
        int64_t(indices.size()),
        [&](const at::Tensor& prefixes) {
          stopped = stopped || stop();
          return stopped ? at::zeros({prefixes.size(0), test.classes()}, at::kDouble) : next(prefixes);
        },
        options);
    if (stopped) return {};
    for (size_t i = 0; i < indices.size(); ++i) {
      hypotheses.push_back(test.decode(sentences[i]));
      references.push_back(test.reference(indices[i]));
    }
  }
  return {{"bleu", corpus_bleu(hypotheses, references).score}};
}

const TranslationSet* translations_of(const TaskData& data) {
  return dynamic_cast<const TranslationSet*>(data.test.get());
}

bool has_two_classes(const TaskData& data) {
  return data.test->task() == LearningTask::classification && data.test->classes() == 2 &&
         data.test->target_shape().empty();
}

}  // namespace

bool has_final_metrics(const TaskData& data) { return has_two_classes(data) || translations_of(data); }

std::vector<Metric> final_metrics(const Experiment& experiment, const Model& model, const TaskData& data,
                                  const TensorMap& weights, const std::function<bool()>& stop) {
  if (!has_final_metrics(data)) return {};
  Predictors predictors(experiment, model, data.test, weights);
  if (has_two_classes(data)) return measure_auc(predictors, stop);
  return measure_bleu(experiment, predictors, *translations_of(data), stop);
}

}  // namespace trireme
