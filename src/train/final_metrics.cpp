#include "train/final_metrics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "data/parallel_text.h"
#include "data/tokenizer.h"
#include "train/auc.h"
#include "train/beam_search.h"
#include "train/bleu.h"
#include "train/predictor.h"

namespace trireme {
namespace {

constexpr int64_t kSamplesAtATime = 128;  // rows of one forward pass

/// The next samples of the set from `first` on, at most `count`.
std::vector<int64_t> some_from(int64_t first, int64_t count, const Dataset& set) {
  std::vector<int64_t> indices(size_t(std::min(count, set.size() - first)));
  std::iota(indices.begin(), indices.end(), first);
  return indices;
}

std::vector<Metric> measure_auc(Predictor& predictor, const Dataset& test, const std::function<bool()>& stop) {
  std::vector<double> scores;
  std::vector<int64_t> labels;
  for (int64_t first = 0; first < test.size(); first += kSamplesAtATime) {
    if (stop()) return {};
    const Samples samples = test.get(some_from(first, kSamplesAtATime, test), Draw{});
    const at::Tensor logits = predictor.predict(samples.data).to(at::kDouble).contiguous();
    for (int64_t i = 0; i < logits.size(0); ++i) {
      scores.push_back(logits.data_ptr<double>()[2 * i + 1] - logits.data_ptr<double>()[2 * i]);
      labels.push_back(samples.target.data_ptr<int64_t>()[i]);
    }
  }
  return {{"auc", area_under_roc(scores, labels)}};
}

/// Asks the model for the tokens after prefixes: `source` [sentences, S], each of which stands for `beam` rows.
NextToken next_token_of(Predictor& predictor, const at::Tensor& source, const BeamOptions& options) {
  at::Tensor data = at::full({source.size(0) * options.beam, source.size(1) + options.longest}, int64_t{kPadding}, at::kLong);
  data.narrow(1, 0, source.size(1)).copy_(source.repeat_interleave(options.beam, 0));
  return [&predictor, data, first = source.size(1)](const at::Tensor& prefixes) {
    const int64_t length = prefixes.size(1);
    data.narrow(1, first, length).copy_(prefixes);
    const at::Tensor logits = predictor.predict_again(data).select(1, length - 1).to(at::kDouble);
    at::Tensor scores = at::_log_softmax(logits, 1, /*half_to_float=*/false);
    // no sentence goes on with these: padding, and a second beginning
    for (const int64_t never : {int64_t{kPadding}, int64_t{kBeginToken}})
      scores.select(1, never).fill_(-std::numeric_limits<double>::infinity());
    return scores;
  };
}

std::vector<Metric> measure_bleu(const Experiment& experiment, Predictor& predictor, const TranslationSet& test,
                                 const std::function<bool()>& stop) {
  const BeamOptions options{.beam = experiment.beam, .length_penalty = experiment.length_penalty, .begin = kBeginToken, .end = kEndToken,
                            .longest = test.target_length()};
  const int64_t at_a_time = std::max<int64_t>(1, kSamplesAtATime / options.beam);
  std::vector<std::string> hypotheses, references;
  for (int64_t first = 0; first < test.size(); first += at_a_time) {
    const std::vector<int64_t> indices = some_from(first, at_a_time, test);
    const at::Tensor source = test.get(indices, Draw{}).data.narrow(1, 0, test.source_length());
    bool stopped = false;
    const NextToken next = next_token_of(predictor, source, options);
    const auto sentences = beam_search(int64_t(indices.size()), [&](const at::Tensor& prefixes) {
      stopped = stopped || stop();
      return stopped ? at::zeros({prefixes.size(0), test.classes()}, at::kDouble) : next(prefixes);
    }, options);
    if (stopped) return {};
    for (size_t i = 0; i < indices.size(); ++i) {
      hypotheses.push_back(test.decode(sentences[i]));
      references.push_back(test.reference(indices[i]));
    }
  }
  return {{"bleu", corpus_bleu(hypotheses, references).score}};
}

const TranslationSet* translations_of(const TaskData& data) { return dynamic_cast<const TranslationSet*>(data.test.get()); }

bool has_two_classes(const TaskData& data) {
  return data.test->task() == LearningTask::classification && data.test->classes() == 2 && data.test->target_shape().empty();
}

}  // namespace

bool has_final_metrics(const TaskData& data) { return has_two_classes(data) || translations_of(data); }

std::vector<Metric> final_metrics(const Experiment& experiment, const Model& model, const TaskData& data, const TensorMap& weights,
                                  const std::function<bool()>& stop) {
  if (!has_final_metrics(data)) return {};
  Predictor predictor(model, weights, experiment.precision);
  if (has_two_classes(data)) return measure_auc(predictor, *data.test, stop);
  return measure_bleu(experiment, predictor, *translations_of(data), stop);
}

}  // namespace trireme
