// Runs that evaluations end: at the same step under every plan, by threads and by processes, resumed or not.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../base/expect_error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/resume.h"
#include "experiment/make_plan.h"
#include "experiment/read_experiment.h"
#include "forecast/agreement_plan.h"
#include "process_ranks.h"
#include "tiny_training.h"
#include "train/compare.h"
#include "train/follower_rank.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class EndingEarly : public TinyTraining {
 public:
  ~EndingEarly() override { fs::remove_all(root_); }

 protected:
  EndingEarly() {
    experiment.precision = Precision::fp64;
    experiment.length = {60, Length::Unit::steps};
    experiment.evaluate_every = {4, Length::Unit::steps};
    experiment.optimizer.learning_rate = 0.1;
    experiment.optimizer.momentum = 0.9;
    experiment.early_stopping.where = "tiny.toml: early_stopping";
  }

  /// Nothing is learned: the first evaluation remains the best.
  void learn_nothing(int64_t patience) {
    experiment.optimizer.learning_rate = 0;
    experiment.early_stopping.patience = patience;
    experiment.early_stopping.min_delta = 1e-9;
    experiment.early_stopping.measure = "loss";
  }

  RunResult run(const std::string& plan, int devices, CheckpointUse use = {}) {
    const Model model = build_model(experiment, data);
    TrainObserver observer;
    return train(experiment, model, data, make_plan(plan, experiment, model, devices), observer, interrupted, nullptr,
                 std::move(use));
  }
  RunResult as_processes(const std::string& plan, int devices) {
    const Model model = build_model(experiment, data);
    const Plan made = make_plan(plan, experiment, model, devices);
    TrainObserver observer;
    RunResult row;
    const std::vector<std::string> ends = as_ranks(devices, [&](const std::shared_ptr<ProcessRank>& process) {
      if (process->rank() > 0) return run_follower_rank(experiment, model, data, made, process, interrupted);
      row = train(experiment, model, data, made, observer, interrupted, nullptr, {}, process);
    });
    EXPECT_THAT(ends, ::testing::Each(::testing::IsEmpty()));
    return row;
  }
  void write_checkpoints() {
    experiment.checkpoint = {
        .every = {100, Length::Unit::steps}, .keep = 0, .best = {}, .folder = {}, .where = "tiny.toml: checkpoint"};
    fs::create_directories(root_);
  }
  CheckpointUse into(const std::string& name) const {
    return {.folder = root_ / name, .resumed = {}, .files = nullptr};
  }
  Resumption resumption(const std::string& name) {
    return open_resumption(root_ / name, experiment, build_model(experiment, data), data);
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("early_stopping_test." + std::to_string(::getpid()));
};

const std::vector<std::pair<std::string, int>> kPlans = {{"single", 1}, {"data", 3},      {"tensor", 2},
                                                         {"gpipe", 3},  {"pipedream", 2}, {"zero3", 2}};

TEST_F(EndingEarly, PatienceEndsEveryPlanAfterTheSameEvaluation) {
  learn_nothing(2);
  for (const auto& [plan, devices] : kPlans) {
    SCOPED_TRACE(plan);
    const RunResult row = run(plan, devices);
    EXPECT_EQ(row.status, RunStatus::ok) << row.reason;
    EXPECT_EQ(row.curve.size(), 12u);  // evaluations after 4, 8 and 12
    EXPECT_EQ(row.evaluations.size(), 3u);
    EXPECT_THAT(row.ended_early, StartsWith("no better test loss in 2 evaluations (by more than 1e-09); the best, "));
    EXPECT_THAT(row.ended_early, HasSubstr("was after step 4"));
    EXPECT_THAT(row.warnings, Contains(HasSubstr("ended early, after step 12 of 60: no better test loss")));
  }
}

TEST_F(EndingEarly, PatienceEndsProcessesToo) {
  learn_nothing(2);
  experiment.private_replicas = true;
  for (const auto& [plan, devices] :
       std::vector<std::pair<std::string, int>>{{"data", 3}, {"gpipe", 2}, {"zero3", 2}}) {
    SCOPED_TRACE(plan);
    const RunResult row = as_processes(plan, devices);
    EXPECT_EQ(row.status, RunStatus::ok) << row.reason;
    EXPECT_EQ(row.curve.size(), 12u);
    EXPECT_EQ(row.ended_early, run(plan, devices).ended_early);
  }
  experiment.early_stopping.patience = 100;
  EXPECT_EQ(as_processes("data", 2).curve.size(), 60u);
}

TEST_F(EndingEarly, TheTargetEndsTheRunWhereItIsReached) {
  experiment.target = 0.6;
  const RunResult whole = run("single", 1);
  ASSERT_TRUE(whole.to_target);
  ASSERT_LT(whole.to_target->steps, 60);
  EXPECT_EQ(whole.curve.size(), 60u) << "a target alone ends nothing";
  EXPECT_EQ(whole.ended_early, "");
  experiment.early_stopping.at_target = true;
  for (const auto& [plan, devices] :
       std::vector<std::pair<std::string, int>>{{"single", 1}, {"data", 3}, {"tensor", 2}}) {
    SCOPED_TRACE(plan);
    const RunResult row = run(plan, devices);
    EXPECT_EQ(int64_t(row.curve.size()), whole.to_target->steps);
    ASSERT_TRUE(row.to_target);
    EXPECT_EQ(row.to_target->steps, whole.to_target->steps);
    EXPECT_THAT(row.ended_early, StartsWith("the target is reached: test accuracy "));
  }
}

TEST_F(EndingEarly, AtTheLastStepNothingIsEarly) {
  learn_nothing(2);
  experiment.length = {12, Length::Unit::steps};
  const RunResult row = run("data", 2);
  EXPECT_EQ(row.curve.size(), 12u);
  EXPECT_EQ(row.ended_early, "");
}

TEST_F(EndingEarly, TheCheckpointKeepsTheCount) {
  learn_nothing(4);
  write_checkpoints();
  const RunResult whole = run("data", 2, into("whole"));
  ASSERT_EQ(whole.curve.size(), 20u);  // evaluations after 4, 8, 12, 16, 20
  const CheckpointIndex index = read_checkpoint_index(root_ / "whole" / checkpoint_name(20));
  EXPECT_EQ(index.ended, whole.ended_early);
  EXPECT_EQ(index.stopping.measure, "loss");
  EXPECT_EQ(index.stopping.best_step, 4);
  EXPECT_EQ(index.stopping.without_improvement, 4);
  EXPECT_EQ(index.stopping.best, whole.evaluations.front().loss);

  experiment.early_stopping.patience = 2;
  ASSERT_EQ(run("data", 2, into("cut")).curve.size(), 12u);
  expect_error(Blame::user, {"training is complete", "ended early, after 12 steps", "no better test loss"},
               [&] { resumption("cut"); });
  experiment.early_stopping.patience = 4;
  const RunResult second = run("tensor", 2, {.folder = root_ / "second", .resumed = resumption("cut").checkpoint});
  EXPECT_EQ(second.curve.size(), 8u) << "two more evaluations, not four";
  EXPECT_EQ(second.curve.back().step, 20);
  EXPECT_EQ(second.ended_early.substr(0, 40), whole.ended_early.substr(0, 40));
  experiment.early_stopping = {};
  EXPECT_EQ(resumption("second").checkpoint.index.step, 20) << "nothing ends it any more";
}

TEST_F(EndingEarly, AResumedRunKnowsWhenTheTargetWasReached) {
  experiment.target = 0.5;
  write_checkpoints();
  experiment.checkpoint.every = {4, Length::Unit::steps};
  const RunResult whole = run("single", 1, into("whole"));
  ASSERT_TRUE(whole.to_target);
  const int64_t reached = whole.to_target->steps;
  ASSERT_LT(reached, 52);
  const Checkpoint after =
      read_checkpoint(root_ / "whole" / checkpoint_name(reached + 4), build_model(experiment, data));
  ASSERT_TRUE(after.index.reached);
  const RunResult rest = run("data", 2, {.folder = root_ / "rest", .resumed = after});
  EXPECT_GT(rest.evaluations.front().step, reached);
  ASSERT_TRUE(rest.to_target);
  EXPECT_EQ(rest.to_target->steps, reached);
  EXPECT_EQ(rest.to_target->epochs, whole.to_target->epochs);
  EXPECT_EQ(rest.to_target->seconds, whole.to_target->seconds);
  experiment.target = 0.999;  // another one: nothing is known of it
  const RunResult other = run("data", 2, {.folder = root_ / "other", .resumed = after});
  if (other.to_target) {
    EXPECT_GT(other.to_target->steps, reached);
  }
  const Checkpoint at_first = read_checkpoint(root_ / "whole" / checkpoint_name(4), build_model(experiment, data));
  EXPECT_EQ(at_first.index.reached.has_value(), reached <= 4);
}

TEST_F(EndingEarly, ACheckpointAtTheTargetIsComplete) {
  experiment.target = 0.3;
  experiment.early_stopping.at_target = true;
  write_checkpoints();
  const RunResult row = run("data", 2, into("run"));
  ASSERT_FALSE(row.ended_early.empty());
  expect_error(Blame::user, {"training is complete", "the target is reached"}, [&] { resumption("run"); });
  experiment.target = 1;
  EXPECT_EQ(resumption("run").checkpoint.index.step, int64_t(row.curve.size()));
}

TEST_F(EndingEarly, AComparisonSaysThatRowsAreNotOfEqualWork) {
  learn_nothing(2);
  ExperimentResult result;
  result.rows = {run("single", 1), run("data", 2)};
  complete_comparison(result);
  const auto unequal = HasSubstr("rows ended after different numbers of samples");
  for (const RunResult& row : result.rows)
    EXPECT_THAT(row.warnings, ::testing::Not(Contains(unequal))) << "all ended at the same step";
  experiment.early_stopping = {};
  result.rows.push_back(run("tensor", 2));
  complete_comparison(result);
  complete_comparison(result);  // as after every row
  EXPECT_THAT(result.rows[0].warnings, ::testing::ElementsAre(HasSubstr("ended early"), unequal));
  EXPECT_THAT(result.rows[2].warnings, ::testing::Not(Contains(unequal)));
}

TEST(EarlyStoppingKeys, AreRead) {
  const Experiment e =
      read_settings("target = 0.5\nstop_at_target = true\ngradient_norm = true\n[early_stopping]\npatience = 3", "mlp");
  EXPECT_TRUE(e.early_stopping.at_target);
  EXPECT_EQ(e.early_stopping.patience, 3);
  EXPECT_TRUE(e.gradient_norm);
  EXPECT_TRUE(compile_options(RunSpec{e}, true).measures_norm);
  const Experiment none = read_settings("", "mlp");
  EXPECT_FALSE(none.early_stopping.watches() || none.gradient_norm);
  EXPECT_FALSE(compile_options(RunSpec{none}, true).measures_norm);
  expect_error(Blame::user, {"stop_at_target", "there is no target"},
               [] { read_settings("stop_at_target = true", "mlp"); });
}

}  // namespace
}  // namespace trireme::test_support
