// Runs on a text whose windows fill no whole number of batches: every window counts, under every plan.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "data/text/text_stream.h"
#include "experiment/batches.h"
#include "experiment/make_plan.h"
#include "tiny_training.h"
#include "train/trainer.h"
#include "train/verify.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kWindow = 4, kWords = 7;

class StreamRuns : public TinyTraining {
 protected:
  StreamRuns() {
    experiment.seed = 5;
    experiment.precision = Precision::fp64;
    experiment.evaluate_every = {1, Length::Unit::epochs};
    experiment.optimizer = {.kind = &kAdamW, .learning_rate = 0.01, .epsilon = 1e-3};
  }

  void use(const std::string& model, std::map<std::string, double> options, int64_t train_windows,
           int64_t test_windows) {
    experiment.model_name = model;
    experiment.model_options = std::move(options);
    data.train = text(train_windows);
    data.test = text(test_windows);
  }
  RunResult run(const std::string& plan, int devices) {
    const Model model = build_model(experiment, data);
    TrainObserver ignored;
    return train(experiment, model, data, make_plan(plan, experiment, model, devices), ignored, interrupted);
  }

 private:
  std::shared_ptr<const Dataset> text(int64_t windows) {
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < windows * kWindow + 1; ++i) tokens.push_back(int32_t(random_() % kWords));
    return std::make_shared<TextStream>(tokens, kWords, kWindow);
  }
  std::mt19937 random_{23};
};

TEST_F(StreamRuns, EveryWindowIsTrainedOnAndEvaluatedOnce) {
  use("lstm-lm", {{"width", 4}}, 29, 13);
  experiment.batch = 8;
  const Batches batches(experiment, data);
  std::multiset<int64_t> trained, evaluated;
  for (int64_t k = 0; k < batches.sampler().steps_per_epoch(); ++k)
    for (const int64_t i : batches.training(k).indices) trained.insert(i);
  for (int64_t k = 0; k < batches.evaluations(); ++k)
    for (const int64_t i : batches.evaluation(k).indices) evaluated.insert(i);
  EXPECT_EQ(trained.size(), 29u);
  EXPECT_EQ(std::set<int64_t>(trained.begin(), trained.end()).size(), 29u);
  EXPECT_EQ(evaluated.size(), 13u);
  EXPECT_EQ(std::set<int64_t>(evaluated.begin(), evaluated.end()).size(), 13u);
  EXPECT_EQ(batches.test_samples(), 13);
  ASSERT_EQ(batches.evaluations(), 2);  // one step of eight rows, and the other five windows
  EXPECT_TRUE(batches.evaluation_starts_anew(0));
  EXPECT_TRUE(batches.evaluation_starts_anew(1)) << "another number of rows";
}

/// The largest batch holds all test windows at once: its loss is their mean.
TEST_F(StreamRuns, ThePerplexityOfAStatelessModelDoesNotDependOnTheBatch) {
  use("transformer-lm", {{"layers", 1}, {"width", 8}, {"heads", 2}}, 140, 125);
  experiment.length = {1, Length::Unit::steps};
  experiment.optimizer.learning_rate = 0;
  experiment.batch = 125;
  const RunResult whole = run("single", 1);
  ASSERT_FALSE(whole.evaluations.empty());
  const EvaluationPoint& expected = whole.evaluations.back();
  ASSERT_FALSE(expected.metrics.empty());
  EXPECT_NEAR(expected.main()->value, std::exp(expected.loss), 1e-9 * expected.main()->value);
  for (const int64_t batch : {64, 25, 7, 124, 130}) {
    experiment.batch = batch;
    const RunResult row = run(batch == 7 ? "data" : "single", batch == 7 ? 2 : 1);
    ASSERT_FALSE(row.evaluations.empty());
    EXPECT_NEAR(row.evaluations.back().loss, expected.loss, 1e-12) << "batch " << batch;
    for (size_t m = 0; m < expected.metrics.size(); ++m)
      EXPECT_NEAR(row.evaluations.back().metrics.at(m).value, expected.metrics[m].value, 1e-10) << "batch " << batch;
  }
}

/// An epoch is three steps of eight rows and one of a single row, for which the second worker has no sample.
TEST_F(StreamRuns, ShortBatchesOfAStatefulModelHaveTheSameCurveUnderEveryPlan) {
  use("lstm-lm", {{"width", 8}, {"probability", 0.2}}, 25, 17);
  experiment.batch = 8;
  experiment.length = {2.5, Length::Unit::epochs};
  const RunResult expected = run("single", 1);
  ASSERT_EQ(expected.status, RunStatus::ok) << expected.reason;
  ASSERT_EQ(expected.curve.size(), 10u);
  EXPECT_EQ(expected.curve[3].samples, 25);
  ASSERT_EQ(expected.evaluations.size(), 3u);
  for (const char* plan : {"data", "data=2,micro_batches=2", "tensor", "pipeline=2,micro_batches=2"}) {
    SCOPED_TRACE(plan);
    const RunResult row = run(plan, 2);
    ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
    ASSERT_EQ(row.curve.size(), expected.curve.size());
    for (size_t k = 0; k < row.curve.size(); ++k) EXPECT_NEAR(row.curve[k].loss, expected.curve[k].loss, 1e-9) << k;
    ASSERT_EQ(row.evaluations.size(), expected.evaluations.size());
    for (size_t k = 0; k < row.evaluations.size(); ++k)
      EXPECT_NEAR(row.evaluations[k].loss, expected.evaluations[k].loss, 1e-9) << k;
  }
  const Model model = build_model(experiment, data);
  EXPECT_TRUE(verify(experiment, model, data, make_plan("data", experiment, model, 2), 6).ok());
}

}  // namespace
}  // namespace trireme::test_support
