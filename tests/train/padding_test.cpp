// Batches of sentences padded to the batch's longest sentence: the same losses, metrics and weights as with full
// padding, under every kind of plan.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "../base/expect_error.h"
#include "data/text/labelled_text.h"
#include "data/text/parallel_text.h"
#include "experiment/batches.h"
#include "metrics/beam_search.h"
#include "metrics/predictor.h"
#include "plan/named.h"
#include "program/compile.h"
#include "program/shapes.h"
#include "train/final_metrics.h"
#include "train/lockstep.h"
#include "train/trainer.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kLength = 16;  // the length with full padding
constexpr int64_t kMultiple = 4;

/// Sentences of 1 to 13 words; most are short.
std::vector<std::string> random_sentences(int64_t n, std::mt19937& random) {
  std::vector<std::string> sentences(static_cast<size_t>(n));
  for (std::string& sentence : sentences) {
    const int longest = std::uniform_int_distribution(1, 13)(random),
              words = std::uniform_int_distribution(1, longest)(random);
    for (int w = 0; w < words; ++w)
      sentence += std::string(w ? " " : "") + char('a' + std::uniform_int_distribution(0, 8)(random));
  }
  return sentences;
}

std::shared_ptr<const Tokenizer> letters() {
  return count_vocabulary(std::vector<std::string>{"a b c d e f g h i"}, {});
}

std::shared_ptr<const Dataset> sentiment(int64_t n, std::mt19937& random) {
  LabelledText text{.labels = {}, .sentences = random_sentences(n, random), .lines = {}};
  for (int64_t i = 0; i < n; ++i) {
    text.labels.push_back(text.sentences[size_t(i)].find('a') == std::string::npos ? "no" : "yes");
    text.lines.push_back(i + 1);
  }
  return std::make_shared<SentenceSet>(text, std::vector<std::string>{"no", "yes"}, letters(), kLength, "sentences");
}

std::shared_ptr<const Dataset> translation(int64_t n, std::mt19937& random) {
  const auto words = letters();
  ParallelText text{.source = random_sentences(n, random), .target = random_sentences(n, random)};
  return std::make_shared<TranslationSet>(std::move(text), words, words, kLength);
}

class Padding : public ::testing::TestWithParam<std::string> {
 protected:
  Padding() {
    RecordProperty("seed", int(seed));
    const bool translates = GetParam() == "gnmt";
    const auto make = [&](int64_t n) { return translates ? translation(n, random) : sentiment(n, random); };
    data.train = make(107);
    data.test = make(45);
    experiment.file = "padded.toml";
    experiment.seed = seed;
    experiment.batch = 12;
    experiment.length = {10, Length::Unit::steps};  // an epoch with its short last batch, and one more step
    experiment.evaluate_every = {5, Length::Unit::steps};
    experiment.precision = Precision::fp64;
    experiment.model_name = GetParam();
    experiment.model_options = {{"layers", translates ? 3 : 2}, {"width", 8}, {"probability", 0}};
    if (!translates) {
      experiment.model_options["heads"] = 4;
      experiment.model_options["positions"] = kLength;  // of the longest sentences: shorter ones use part of the table
    }
    experiment.optimizer.learning_rate = 0.05;
    experiment.optimizer.momentum = 0.9;
    experiment.pad_to_multiple_of = kMultiple;
  }

  /// Balances stages by FLOPs of the given model: without flush the curve depends on where stages begin.
  Plan plan_of(const std::string& name, const Model& model, int devices) const {
    return named_plan(name, model, Cluster::uniform(devices), experiment.batch, {});
  }

  RunResult run(const std::string& plan, int devices) {
    const Model model = build_model(experiment, data);
    TrainObserver ignored;
    return train(experiment, model, data, plan_of(plan, model, devices), ignored, {false});
  }

  const uint32_t seed = std::random_device{}();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed)};
  std::mt19937 random{seed};
  TaskData data;
  RunSpec experiment;
};

void expect_same_run(const RunResult& actual, const RunResult& expected, double tolerance = 1e-10) {
  ASSERT_EQ(actual.status, RunStatus::ok) << actual.reason;
  ASSERT_EQ(actual.curve.size(), expected.curve.size());
  for (size_t i = 0; i < expected.curve.size(); ++i) {
    EXPECT_EQ(actual.curve[i].samples, expected.curve[i].samples);
    EXPECT_NEAR(actual.curve[i].loss, expected.curve[i].loss, tolerance) << "step " << i;
  }
  ASSERT_EQ(actual.evaluations.size(), expected.evaluations.size());
  for (size_t i = 0; i < expected.evaluations.size(); ++i) {
    const EvaluationPoint &a = actual.evaluations[i], &e = expected.evaluations[i];
    EXPECT_NEAR(a.loss, e.loss, tolerance);
    ASSERT_EQ(a.metrics.size(), e.metrics.size());
    ASSERT_FALSE(e.metrics.empty());
    for (size_t m = 0; m < e.metrics.size(); ++m)
      EXPECT_NEAR(a.metrics[m].value, e.metrics[m].value, tolerance * (1 + e.metrics[m].value));
  }
}

/// The most tokens that a sample has in columns [first, end).
int64_t tokens_in(const at::Tensor& data, int64_t first, int64_t end) {
  return data.narrow(1, first, end - first).ne(kPadding).sum(1).max().item<int64_t>();
}

TEST_P(Padding, BatchesAreAsLongAsTheirLongestSample) {
  const Batches batches(experiment, data);
  const int64_t steps = batches.sampler().steps_per_epoch();
  ASSERT_EQ(steps, 9);
  const bool translates = GetParam() == "gnmt";
  const std::vector<int64_t> fifth = batches.training(4).indices;
  std::set<Shape> shapes;
  std::set<int64_t> seen;
  const auto check = [&](const PlannedBatch& planned, const Dataset& whole) {
    const at::Tensor full = whole.get(planned.indices, {}).data;
    const auto round = [](int64_t n) { return std::min(kLength, (n + kMultiple - 1) / kMultiple * kMultiple); };
    int64_t positions = round(tokens_in(full, 0, kLength));
    if (translates) positions += round(tokens_in(full, kLength, 2 * kLength));
    const Batch batch = batch_from(planned);
    const auto tensors = batch.load({0, batch.samples});
    EXPECT_EQ(tensors[0].size(1), positions);
    if (batch.model) {
      EXPECT_EQ(batch.model->node(0).sample_shape, Shape{positions});
      EXPECT_EQ(batch.model->node(1).sample_shape.empty(), !translates);
    } else {
      EXPECT_EQ(positions, full.size(1)) << "without a model of its own it is whole";
    }
    EXPECT_EQ(tensors[0].ne(kPadding).sum().item<int64_t>(), full.ne(kPadding).sum().item<int64_t>())
        << "only padding is cut";
    shapes.insert(tensors[0].sizes().slice(1).vec());
    seen.insert(planned.indices.begin(), planned.indices.end());
  };
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    seen.clear();
    int64_t samples = 0;
    for (int64_t k = 0; k < steps; ++k) {
      const PlannedBatch planned = batches.training(epoch * steps + k);
      EXPECT_EQ(int64_t(planned.indices.size()), batches.sampler().batch_size_at(k));
      samples += int64_t(planned.indices.size());
      check(planned, *data.train);
    }
    EXPECT_EQ(samples, 107);
    EXPECT_EQ(seen.size(), 107u) << "each sample once an epoch";
  }
  seen.clear();
  for (int64_t k = 0; k < batches.evaluations(); ++k) check(batches.evaluation(k), *data.test);
  EXPECT_EQ(seen.size(), 45u);
  EXPECT_EQ(batches.test_samples(), 45);
  EXPECT_GE(shapes.size(), 3u) << "of several lengths";
  experiment.pad_to_multiple_of = kLength;
  EXPECT_EQ(Batches(experiment, data).training(4).indices, fifth)
      << "which samples a batch holds does not depend on the multiple";
}

/// The reference is the same batches with full padding, which need no other model than the run's.
TEST_P(Padding, MakesNoDifferenceUnderAnyPlan) {
  experiment.pad_to_multiple_of = kLength;
  ASSERT_EQ(Batches(experiment, data).training(0).model, nullptr);
  const RunResult whole = run("single", 1);
  ASSERT_EQ(whole.status, RunStatus::ok) << whole.reason;
  experiment.pad_to_multiple_of = kMultiple;
  for (const auto& [plan, devices] :
       std::vector<std::pair<std::string, int>>{{"single", 1},
                                                {"data", 3},
                                                {"tensor", 2},
                                                {"pipeline,micro_batches=3", 2},
                                                {"hybrid:tensor", 4},
                                                {"data=2,pipeline=2,micro_batches=2,schedule=1f1b,recompute=all", 4},
                                                {"zero1", 2},
                                                {"zero3", 2},
                                                {"tensor=2,split=sequence", 2},
                                                {"pipeline=2,schedule=zero-bubble,micro_batches=3", 2}}) {
    SCOPED_TRACE(plan);
    expect_same_run(run(plan, devices), whole);
  }
}

/// Without flush, batches of different shapes are in the pipeline at once.
TEST_P(Padding, MakesNoDifferenceWithoutFlush) {
  experiment.pad_to_multiple_of = kLength;
  const RunResult whole = run("pipedream", 2);
  experiment.pad_to_multiple_of = kMultiple;
  expect_same_run(run("pipedream", 2), whole);
}

/// Compares every parameter and every gradient, because losses may hide differences.
TEST_P(Padding, GivesTheSameGradients) {
  const Model model = build_model(experiment, data);
  const auto steps = [&](int64_t multiple) {
    experiment.pad_to_multiple_of = multiple;
    const Batches batches(experiment, data);
    return run_lockstep(model, plan_of("tensor", model, 2),
                        [&](int64_t step) { return batch_from(batches.training(step)); },
                        {.steps = 3, .precision = Precision::fp64, .worker = {.seed = seed}});
  };
  // A gradient that is only rounding (of a key's bias, which the softmax cancels) has no relative difference.
  const auto is_rounding = [](const at::Tensor& tensor) { return tensor.abs().max().item<double>() < 1e-12; };
  const auto expected = steps(kLength), actual = steps(kMultiple);
  for (size_t s = 0; s < expected.size(); ++s)
    for (size_t p = 0; p < expected[s].names.size(); ++p) {
      if (is_rounding(expected[s].gradients[p])) continue;
      EXPECT_LE(relative_difference(actual[s].gradients[p], expected[s].gradients[p]), 1e-10)
          << "gradient of " << expected[s].names[p];
      EXPECT_LE(relative_difference(actual[s].parameters[p], expected[s].parameters[p]), 1e-10) << expected[s].names[p];
    }
}

/// Weights so large that the model's output depends on its input, and contains only known words.
TensorMap opinionated_weights(const Model& model) {
  at::Generator generator = at::detail::createCPUGenerator(1);
  TensorMap weights;
  for (const ParameterSpec& spec : model.parameters()) {
    weights[spec.name] = at::randn(spec.shape, generator, at::kDouble);
    if (spec.name == "decoder.classifier.bias") weights[spec.name].zero_()[kUnknownToken] = -100;
    else if (spec.name.find("bias") != std::string::npos) weights[spec.name].zero_();
  }
  return weights;
}

/// The model's translations with full padding; BLEU then compares the model with these.
std::vector<std::string> translations_of(const TranslationSet& set, const Model& model, const TensorMap& weights,
                                         int64_t beam) {
  Predictor predictor(model, weights, Precision::fp64);
  std::vector<int64_t> all(size_t(set.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  at::Tensor data = set.get(all, {}).data.repeat_interleave(beam, 0);
  const auto found = beam_search(
      set.size(),
      [&](const at::Tensor& prefixes) {
        data.narrow(1, kLength, kLength).fill_(int64_t{kPadding}).narrow(1, 0, prefixes.size(1)).copy_(prefixes);
        at::Tensor scores = at::log_softmax(predictor.predict(data).select(1, prefixes.size(1) - 1), 1);
        for (const int64_t never : {int64_t{kPadding}, int64_t{kBeginToken}}) scores.select(1, never).fill_(-1e300);
        return scores;
      },
      {.beam = beam, .begin = kBeginToken, .end = kEndToken, .longest = kLength});
  std::vector<std::string> sentences;
  for (const auto& tokens : found) sentences.push_back(set.decode(tokens));
  return sentences;
}

TEST_P(Padding, MakesNoDifferenceToFinalMetrics) {
  const Model model = build_model(experiment, data);
  const TensorMap weights = opinionated_weights(model);
  const auto measure = [&](int64_t multiple) {
    experiment.pad_to_multiple_of = multiple;
    const auto metrics = final_metrics(experiment, model, data, weights, [] { return false; });
    EXPECT_EQ(metrics.size(), 1u);
    return metrics.at(0).value;
  };
  if (GetParam() == "bert") {
    const double whole = measure(0);
    EXPECT_NEAR(measure(kMultiple), whole, 1e-12);
    EXPECT_NEAR(measure(1), whole, 1e-12);
    return;
  }
  const auto kept = data.test;
  const auto& given = dynamic_cast<const TranslationSet&>(*kept);
  for (int64_t beam : {1, 3}) {
    experiment.beam = beam;
    ParallelText text{.source = {}, .target = translations_of(given, model, weights, beam)};
    for (int64_t i = 0; i < given.size(); ++i) text.source.push_back(given.source_text(i));
    const auto is_long = [](const std::string& sentence) {
      return sentence.size() > 2 * 4;
    };  // letters with blanks between them
    EXPECT_GT(std::count_if(text.target.begin(), text.target.end(), is_long), 5) << "BLEU counts runs of four words";
    EXPECT_GT(std::set<std::string>(text.target.begin(), text.target.end()).size(), 5u) << "they say nothing";
    data.test = std::make_shared<TranslationSet>(text, letters(), letters(), kLength);
    for (int64_t multiple : {int64_t{0}, int64_t{1}, kMultiple, int64_t{5}})
      EXPECT_NEAR(measure(multiple), 100, 1e-9) << multiple;
  }
}

TEST_P(Padding, RefusesLengthsThatASplitDoesNotDivide) {
  experiment.pad_to_multiple_of = 3;
  expect_error(Blame::user,
               {"padded.toml: data.pad_to_multiple_of: 3", "sequence", "over 2 workers", "use a multiple of 2"},
               [&] { run("tensor=2,split=sequence", 2); });
}

TEST_P(Padding, RefusesMultiplesBeyondAllLengths) {
  experiment.pad_to_multiple_of = kLength;
  build_model(experiment, data);
  experiment.pad_to_multiple_of = kLength + 1;
  expect_error(Blame::user, {"padded.toml: data.pad_to_multiple_of: 17", "16 tokens at most", "smaller multiple"},
               [&] { build_model(experiment, data); });
}

INSTANTIATE_TEST_SUITE_P(Models, Padding, ::testing::Values("bert", "gnmt"),
                         [](const auto& info) { return info.param; });

TEST(Shapes, RefusesParametersThatAreAsLongAsTheSamples) {
  const auto of_length = [](int64_t length) {
    return make_model({.name = "transformer-lm",
                       .sample_shape = {length},
                       .classes = 4,
                       .options = {{"layers", 1}, {"width", 8}, {"heads", 2}},
                       .task = LearningTask::language,
                       .target_shape = {length}});
  };
  const Model model = of_length(8), shorter = of_length(4);
  const Plan plan = named_plan("single", model, Cluster::uniform(1), 4, {});
  expect_error(Blame::user, {"here", "wpe.weight", "[8, 8]", "[4, 8]", "length of samples"},
               [&] { check_runs(compile(model, plan, {}), model, shorter, "here"); });
  EXPECT_NO_THROW(check_runs(compile(model, plan, {}), model, of_length(8), "here"));
}

}  // namespace
}  // namespace trireme::test_support
