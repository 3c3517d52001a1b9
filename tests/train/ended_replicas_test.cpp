// Runs of replicas that agree which an evaluation ends: together with it, at a common stop after it, or with a round.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../base/expect_error.h"
#include "checkpoint/checkpoint.h"
#include "process_ranks.h"
#include "replica_training.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/agreement/early_end.h"
#include "train/follower_rank.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

const char* const kNoBetter = "no better test loss in 2 evaluations";

class EndedReplicas : public Replicas {
 public:
  ~EndedReplicas() override { fs::remove_all(root_); }

 protected:
  /// Nothing is learned: the first evaluation remains the best, and the third ends the run.
  EndedReplicas() {
    data.train = std::make_shared<MemoryDataset>(200, 1);  // batches of equal size: samples count steps
    experiment.length = {60, Length::Unit::steps};
    experiment.evaluate_every = {4, Length::Unit::steps};
    experiment.optimizer.learning_rate = 0;
    experiment.early_stopping = {
        .patience = 2, .min_delta = 1e-9, .measure = "loss", .where = "tiny.toml: early_stopping"};
  }
  /// In real time replicas go on while an evaluation is made.
  void train_long() {
    experiment.length = {200000, Length::Unit::steps};
    experiment.evaluate_every = {50, Length::Unit::steps};
  }

  Outcome as_processes(const std::string& policy, int devices) {
    const Model model = build_model(experiment, data);
    const Plan plan = plan_with_agreement(policy, experiment, model, devices);
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
  static void expect_ended_at_12(const Outcome& outcome) {
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    EXPECT_THAT(outcome.row.ended_early, HasSubstr(kNoBetter));
    EXPECT_EQ(outcome.row.curve.size(), 12u);
    ASSERT_EQ(outcome.row.evaluations.size(), 3u);
    EXPECT_EQ(outcome.row.evaluations.back().step, 12);
    EXPECT_FALSE(outcome.weights.empty());
    EXPECT_THAT(outcome.row.warnings, Contains(HasSubstr("ended early, after step 12 of 60")));
  }
  static void expect_ended(const Outcome& outcome, size_t most_steps) {
    EXPECT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    EXPECT_THAT(outcome.row.ended_early, HasSubstr(kNoBetter));
    EXPECT_LT(outcome.row.curve.size(), most_steps);
    EXPECT_GE(outcome.row.evaluations.size(), 3u);
    EXPECT_FALSE(outcome.weights.empty());
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("ended_replicas_test." + std::to_string(::getpid()));
};

TEST_F(EndedReplicas, ThoseThatEvaluateTogetherEndWithTheEvaluation) {
  for (const char* policy : {"local-sgd,every=2 steps", "local-sgd,every=3 steps", "gossip", "diloco,every_steps=5",
                             "streaming-diloco,every_steps=8"}) {
    SCOPED_TRACE(policy);
    expect_ended_at_12(run(policy, 2));
  }
  modelled(0.01);
  for (const char* policy : {"local-sgd,every=2 steps", "gossip", "diloco,every_steps=5", "synchronous"}) {
    SCOPED_TRACE(fmt::format("{}, modelled", policy));
    expect_ended_at_12(run(policy, 2));
  }
}

TEST_F(EndedReplicas, TheirTimeIsWithoutTheEvaluations) {
  test_set->pause = std::chrono::milliseconds(100);
  const Outcome outcome = run("local-sgd,every=2 steps", 2);
  expect_ended_at_12(outcome);
  EXPECT_LT(outcome.row.curve.back().seconds, 0.5) << "two evaluations of five batches take at least 1 s";
}

TEST_F(EndedReplicas, OthersEndAtTheNextCommonStop) {
  modelled(0.01);
  for (const char* policy :
       {"easgd,period=2", "downpour,push_every=2,fetch_every=2", "async-average", "shat", "partial"}) {
    SCOPED_TRACE(policy);
    const Outcome first = run(policy, 2), second = run(policy, 2);
    expect_ended(first, 60);
    EXPECT_GE(first.row.curve.size(), 12u);
    EXPECT_LE(first.row.curve.size(), 40u);
    EXPECT_EQ(first.row.curve.size(), second.row.curve.size()) << "modelled time is deterministic";
    EXPECT_EQ(first.row.evaluations.size(), second.row.evaluations.size());
  }
}

TEST_F(EndedReplicas, OthersEndInRealTimeToo) {
  train_long();
  for (const char* policy : {"easgd,period=2", "async-average", "hogwild"}) {
    if (policy == std::string("hogwild") && device_under_test() != "cpu") continue;
    SCOPED_TRACE(policy);
    expect_ended(run(policy, 2), 200000);
  }
}

TEST_F(EndedReplicas, FederatedRoundsEnd) {
  experiment.evaluate_every = {2, Length::Unit::steps};
  modelled(0.01);
  for (const char* policy : {"fedavg,local=2 steps", "fedavg,rounds=20,local=2 steps"}) {
    SCOPED_TRACE(policy);
    const Outcome outcome = run(policy, 2);
    expect_ended(outcome, 60);
    EXPECT_EQ(outcome.row.replicas->rounds.size(), 3u) << "the round after the third evaluation does not begin";
  }
  experiment.early_stopping.patience = 100;
  EXPECT_EQ(run("fedavg,rounds=4,local=2 steps", 2).row.ended_early, "");
  experiment.early_stopping.patience = 3;
  EXPECT_EQ(run("fedavg,rounds=4,local=2 steps", 2).row.ended_early, "") << "the last round ends nothing early";
}

TEST_F(EndedReplicas, TheTargetEndsThem) {
  experiment.optimizer.learning_rate = 0.1;
  experiment.optimizer.momentum = 0.9;
  experiment.early_stopping = {.where = "tiny.toml: stop_at_target"};
  experiment.target = 0.6;
  const Outcome whole = run("local-sgd,every=2 steps", 2);
  ASSERT_TRUE(whole.row.to_target);
  ASSERT_LT(whole.row.to_target->steps, 60);
  experiment.early_stopping.at_target = true;
  const Outcome outcome = run("local-sgd,every=2 steps", 2);
  EXPECT_THAT(outcome.row.ended_early, HasSubstr("the target is reached: test accuracy "));
  EXPECT_EQ(int64_t(outcome.row.curve.size()), whole.row.to_target->steps);
}

TEST_F(EndedReplicas, ProcessesEndLikeThreads) {
  expect_ended_at_12(as_processes("local-sgd,every=2 steps", 2));
  expect_ended_at_12(as_processes("diloco,every_steps=5", 2));
  train_long();
  expect_ended(as_processes("easgd,period=2", 2), 200000);
  expect_ended(as_processes("fedavg,local=2 steps", 2), 200000);
}

TEST_F(EndedReplicas, TheCheckpointKeepsTheCount) {
  experiment.checkpoint = {
      .every = {100, Length::Unit::steps}, .keep = 0, .best = {}, .folder = {}, .where = "tiny.toml: checkpoint"};
  fs::create_directories(root_);
  const std::string policy = "local-sgd,every=2 steps";
  const Model model = build_model(experiment, data);
  const Plan plan = plan_with_agreement(policy, experiment, model, 2);
  const auto into = [&](const std::string& name, std::optional<Checkpoint> resumed) {
    Keeping observer;
    RunResult row = train(experiment, model, data, plan, observer, interrupted, nullptr,
                          {.folder = root_ / name, .resumed = std::move(resumed)});
    return Outcome{row, observer.weights, observer.steps};
  };
  expect_ended_at_12(into("first", std::nullopt));
  const Checkpoint written = read_checkpoint(root_ / "first" / checkpoint_name(12), model);
  EXPECT_EQ(written.index.stopping.best_step, 4);
  EXPECT_EQ(written.index.stopping.without_improvement, 2);
  EXPECT_THAT(written.index.ended, HasSubstr(kNoBetter));
  expect_error(Blame::user, {"training is complete", "ended early, after 12 steps"},
               [&] { open_resumption(root_ / "first", plan, experiment, model, data); });
  experiment.early_stopping.patience = 4;
  const Outcome second = into("second", written);
  EXPECT_EQ(second.row.curve.size(), 8u) << "two more evaluations, not four";
  EXPECT_EQ(second.row.curve.back().step, 20);
}

TEST_F(EndedReplicas, WhatCannotEndIsRefused) {
  const Model model = build_model(experiment, data);
  const auto plan = [&](const char* policy) { return plan_with_agreement(policy, experiment, model, 2); };
  const auto check = [&](const char* policy, ReplicaHosting hosting) {
    check_early_stopping(experiment, data, plan(policy), hosting);
  };
  EXPECT_NO_THROW(check("fedavg", ReplicaHosting::clients));
  EXPECT_NO_THROW(check("easgd", ReplicaHosting::processes));
  for (const char* policy : {"easgd", "local-sgd"})
    expect_error(Blame::user, {"tiny.toml: early_stopping", policy, "clients train to the end of their length"},
                 [&] { check(policy, ReplicaHosting::clients); });
  modelled(0.01);
  experiment.replicas.clock->failures = {{.replica = 0, .at = 0.005}};
  EXPECT_NO_THROW(check("fedavg", ReplicaHosting::threads));
  expect_error(Blame::user, {"tiny.toml: early_stopping", "easgd", "a lost replica"}, [&] { run("easgd", 2); });
  experiment.early_stopping = {.restore_best = true, .where = "tiny.toml: early_stopping"};
  EXPECT_NO_THROW(check("easgd", ReplicaHosting::threads)) << "nothing ends the run";
}

}  // namespace
}  // namespace trireme::test_support
