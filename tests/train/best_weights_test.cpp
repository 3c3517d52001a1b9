// Runs that restore the weights of their best evaluation: under every plan, by threads and by processes, resumed or
// not. A run that ends at the best evaluation has the same weights.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../base/expect_error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/resume.h"
#include "experiment/make_plan.h"
#include "process_ranks.h"
#include "replica_training.h"
#include "train/follower_rank.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

class RestoringBest : public TinyTraining {
 public:
  ~RestoringBest() override { fs::remove_all(root_); }

 protected:
  RestoringBest() {
    experiment.precision = Precision::fp64;
    experiment.length = {60, Length::Unit::steps};
    experiment.evaluate_every = {4, Length::Unit::steps};
    experiment.optimizer.learning_rate = 0.1;
    experiment.optimizer.momentum = 0.9;
    data.train = std::make_shared<MemoryDataset>(200, 1);  // batches of equal size: samples count steps
  }

  Outcome run(const std::string& strategy, int devices, CheckpointUse use = {}) {
    const Model model = build_model(experiment, data);
    Keeping observer;
    RunResult row = train(experiment, model, data, plan_of(strategy, model, devices), observer, interrupted, nullptr,
                          std::move(use));
    return {row, observer.weights, observer.steps};
  }
  Outcome as_processes(const std::string& strategy, int devices) {
    const Model model = build_model(experiment, data);
    const Plan plan = plan_of(strategy, model, devices);
    Keeping observer;
    Outcome outcome;
    const std::vector<std::string> ends = as_ranks(devices, [&](const std::shared_ptr<ProcessRank>& process) {
      if (process->rank() > 0) return run_follower_rank(experiment, model, data, plan, process, interrupted);
      outcome.row = train(experiment, model, data, plan, observer, interrupted, nullptr, {}, process);
      outcome.weights = observer.weights;
    });
    EXPECT_THAT(ends, ::testing::Each(::testing::IsEmpty()));
    return outcome;
  }
  Plan plan_of(const std::string& strategy, const Model& model, int devices) const {
    return is_update_policy(strategy) ? plan_with_agreement(strategy, experiment, model, devices)
                                      : make_plan(strategy, experiment, model, devices);
  }

  /// Lets the best evaluation be one in the middle: the first that is better than the first one by half of what the
  /// loss falls in all. Returns the step of that evaluation, from the evaluations of a run that restores nothing.
  int64_t restore_the_middle(const RunResult& row) {
    const std::vector<EvaluationPoint>& evaluations = row.evaluations;
    const double least = (evaluations.front().loss - evaluations.back().loss) / 2;
    EXPECT_GT(least, 0);
    experiment.early_stopping = {.min_delta = least, .measure = "loss", .restore_best = true};
    double best = std::numeric_limits<double>::infinity();
    int64_t step = 0;
    for (const EvaluationPoint& point : evaluations)
      if (best - point.loss > least) {
        best = point.loss;
        step = point.step;
      }
    EXPECT_GT(step, evaluations.front().step);
    EXPECT_LT(step, evaluations.back().step);
    return step;
  }
  /// A run that ends with that step.
  Outcome until(int64_t step, const std::string& strategy, int devices) {
    const Length whole = std::exchange(experiment.length, Length{double(step), Length::Unit::steps});
    const EarlyStoppingSpec spec = std::exchange(experiment.early_stopping, {});
    Outcome outcome = run(strategy, devices);
    experiment.length = whole;
    experiment.early_stopping = spec;
    return outcome;
  }
  static void expect_weights_of(int64_t step, const Outcome& run, const Outcome& ended_there) {
    ASSERT_EQ(run.row.status, RunStatus::ok) << run.row.reason;
    ASSERT_TRUE(run.row.weights_of_step);
    EXPECT_EQ(*run.row.weights_of_step, step);
    ASSERT_TRUE(run.row.test);
    EXPECT_EQ(run.row.test->step, step);
    EXPECT_NEAR(run.row.test->loss, ended_there.row.test->loss, 1e-12);
    EXPECT_LT(largest_difference(run.weights, ended_there.weights), 1e-12);
    EXPECT_THAT(run.row.warnings, Contains(HasSubstr("the weights are those of step " + std::to_string(step))));
  }
  void write_checkpoints(int64_t every) {
    experiment.checkpoint = {.every = {double(every), Length::Unit::steps},
                             .keep = 0,
                             .best = {},
                             .folder = {},
                             .where = "tiny.toml: checkpoint"};
    fs::create_directories(root_);
  }
  Checkpoint checkpoint_at(const std::string& name, int64_t step) {
    return read_checkpoint(root_ / name / checkpoint_name(step), build_model(experiment, data));
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("best_weights_test." + std::to_string(::getpid()));
};

TEST_F(RestoringBest, EveryPlanHasTheWeightsOfItsBestEvaluation) {
  for (const auto& [plan, devices] : std::vector<std::pair<std::string, int>>{
           {"single", 1}, {"data", 3}, {"tensor", 2}, {"gpipe", 3}, {"zero3", 2}}) {
    SCOPED_TRACE(plan);
    experiment.early_stopping = {};
    const Outcome plain = run(plan, devices);
    EXPECT_FALSE(plain.row.weights_of_step);
    const int64_t best = restore_the_middle(plain.row);
    const Outcome restored = run(plan, devices);
    expect_weights_of(best, restored, until(best, plan, devices));
    ASSERT_EQ(restored.row.curve.size(), plain.row.curve.size());
    for (size_t k = 0; k < plain.row.curve.size(); ++k)
      EXPECT_EQ(restored.row.curve[k].loss, plain.row.curve[k].loss) << "training goes on as without it, step " << k;
  }
}

TEST_F(RestoringBest, AveragedWeightsAreThoseThatWereEvaluated) {
  experiment.optimizer.ema = 0.9;
  const Outcome plain = run("data", 2);
  const int64_t best = restore_the_middle(plain.row);
  const Outcome restored = run("data", 2);
  expect_weights_of(best, restored, until(best, "data", 2));
  for (size_t k = 0; k < plain.row.curve.size(); ++k)
    EXPECT_EQ(restored.row.curve[k].loss, plain.row.curve[k].loss) << k;
}

TEST_F(RestoringBest, ProcessesToo) {
  experiment.private_replicas = true;
  for (const char* plan : {"data", "gpipe", "zero3"}) {
    SCOPED_TRACE(plan);
    experiment.early_stopping = {};
    const int64_t best = restore_the_middle(run(plan, 2).row);
    expect_weights_of(best, as_processes(plan, 2), until(best, plan, 2));
  }
}

TEST_F(RestoringBest, WhenTheLastEvaluationIsTheBestNothingChanges) {
  const Outcome plain = run("data", 2);
  experiment.early_stopping = {.measure = "loss", .restore_best = true};
  const Outcome restored = run("data", 2);
  ASSERT_TRUE(restored.row.weights_of_step);
  const auto best = std::min_element(plain.row.evaluations.begin(), plain.row.evaluations.end(),
                                     [](const auto& a, const auto& b) { return a.loss < b.loss; });
  EXPECT_EQ(*restored.row.weights_of_step, best->step);
  if (best->step == 60) {
    EXPECT_EQ(largest_difference(restored.weights, plain.weights), 0);
  }
}

TEST_F(RestoringBest, PatienceEndsTheRunWithThem) {
  const Outcome plain = run("data", 2);
  const int64_t best = restore_the_middle(plain.row);
  experiment.early_stopping.patience = 2;
  const Outcome restored = run("data", 2);
  if (restored.row.ended_early.empty()) GTEST_SKIP() << "the best evaluation is too late";
  EXPECT_EQ(int64_t(restored.row.curve.size()), best + 8);
  expect_weights_of(best, restored, until(best, "data", 2));
}

TEST_F(RestoringBest, CheckpointsHaveThem) {
  const int64_t best = restore_the_middle(run("data", 2).row);
  write_checkpoints(4);
  const Outcome whole = run("data", 2, {.folder = root_ / "whole"});
  const Outcome ended_there = until(best, "data", 2);
  expect_weights_of(best, whole, ended_there);
  const Checkpoint written = checkpoint_at("whole", best + 4);
  ASSERT_TRUE(written.index.best_evaluation);
  EXPECT_EQ(written.index.best_evaluation->step, best);
  for (const auto& [plan, devices] : std::vector<std::pair<std::string, int>>{{"data", 2}, {"gpipe", 3}}) {
    SCOPED_TRACE(plan);
    const Outcome rest = run(plan, devices, {.folder = root_ / ("rest-" + plan), .resumed = written});
    EXPECT_GT(rest.row.evaluations.front().step, best);
    expect_weights_of(best, rest, ended_there);
    EXPECT_EQ(rest.row.test->seconds, written.index.best_evaluation->seconds);
  }
}

TEST_F(RestoringBest, ACheckpointWithoutThemIsRefused) {
  experiment.early_stopping = {.patience = 100, .measure = "loss"};
  write_checkpoints(8);
  run("data", 2, {.folder = root_ / "run"});
  const Model model = build_model(experiment, data);
  const fs::path at_8 = root_ / "run" / checkpoint_name(8);
  EXPECT_NO_THROW(open_resumption(at_8, experiment, model, data));
  experiment.early_stopping.restore_best = true;
  expect_error(Blame::user, {"restore_best", "after step", "written without restore_best"},
               [&] { open_resumption(at_8, experiment, model, data); });
  experiment.early_stopping.measure = "accuracy";
  const Resumption other = open_resumption(at_8, experiment, model, data);
  EXPECT_THAT(other.notices, Contains(HasSubstr("from here on")));
}

TEST_F(RestoringBest, ReplicasTooInRealAndInModelledTime) {
  experiment.optimizer.momentum = 0;
  for (const bool modelled : {false, true}) {
    if (modelled) experiment.replicas.clock = ModelledClock{.step_seconds = 0.01, .link = {}, .server_link = {}};
    for (const char* policy : {"local-sgd,every=2 steps", "gossip"}) {
      SCOPED_TRACE(policy);
      experiment.early_stopping = {};
      const int64_t best = restore_the_middle(run(policy, 2).row);
      expect_weights_of(best, run(policy, 2), until(best, policy, 2));
    }
  }
}

TEST_F(RestoringBest, CheckpointsOfReplicasHaveThem) {
  experiment.optimizer.momentum = 0;
  const std::string policy = "local-sgd,every=2 steps";
  const int64_t best = restore_the_middle(run(policy, 2).row);
  write_checkpoints(4);
  expect_weights_of(best, run(policy, 2, {.folder = root_ / "whole"}), until(best, policy, 2));
  const Checkpoint written = checkpoint_at("whole", best + 4);
  ASSERT_TRUE(written.index.best_evaluation);
  const Outcome rest = run(policy, 2, {.folder = root_ / "rest", .resumed = written});
  EXPECT_GT(rest.row.evaluations.front().step, best);
  expect_weights_of(best, rest, until(best, policy, 2));
}

}  // namespace
}  // namespace trireme::test_support
