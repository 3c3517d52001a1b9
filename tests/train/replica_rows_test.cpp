// What the rows of whole runs under update policies say.
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "forecast/cost_source.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "replica_training.h"
#include "train/agreement/replica_stops.h"

namespace trireme::test_support {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class ReplicaRows : public Replicas {};

TEST_F(ReplicaRows, EvaluationsEndWithTheTimeLimitAndTheLastOneIsMade) {
  modelled(0.01);
  experiment.evaluate_every = {1, Length::Unit::steps};
  experiment.time_limit = 2;
  test_set->pause = std::chrono::milliseconds(100);  // half a second per evaluation, and training takes far less
  const RunResult row = run("local-sgd,every=1 steps", 2).row;
  ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
  EXPECT_LT(row.evaluations.size(), row.curve.size() / 2);
  ASSERT_FALSE(row.evaluations.empty());
  EXPECT_EQ(row.evaluations.back().samples, row.curve.back().samples);
  EXPECT_THAT(row.warnings, Contains(HasSubstr("evaluations were left out, because time_limit was reached")));
}

TEST_F(ReplicaRows, ARunThatTimesOutMakesOnlyTheLastEvaluation) {
  experiment.length = {100000, Length::Unit::epochs};
  experiment.evaluate_every = {5, Length::Unit::steps};
  experiment.time_limit = 0.3;
  for (const char* strategy : {"local-sgd,every=2 steps", "easgd"}) {
    const RunResult row = run(strategy, 2).row;
    EXPECT_EQ(row.status, RunStatus::timed_out) << strategy;
    EXPECT_GT(row.curve.size(), 20u) << strategy;
    EXPECT_EQ(row.evaluations.size(), 1u) << strategy;
  }
}

TEST_F(ReplicaRows, PredictedRoundsAreThoseThatTheLengthOfTheRunGives) {
  constexpr int kClients = 3;
  constexpr int64_t kSteps = 30;  // of each client: 3 epochs of 70 samples in batches of 7
  const std::string strategy = "fedavg,local=5 steps";
  modelled(0.01);
  experiment.replicas.clock->server_link = LinkSpeed{.bandwidth = 1e6, .latency = 1e-3};
  experiment.replicas.shares = SampleShares::samples;
  experiment.batch = 21;
  const Model model = build_model(experiment, data);
  const RunResult measured = run(strategy, kClients).row;
  ASSERT_EQ(measured.status, RunStatus::ok) << measured.reason;
  ASSERT_EQ(measured.replicas->rounds.size(), size_t(kSteps / 5));
  const Plan plan = plan_with_agreement(strategy, experiment, model, kClients);
  const CostSource source =
      described_source(experiment, model, slow_cluster(kClients), device_numbers(0, plan.workers()));
  const RunResult predicted = predict(experiment, model, plan, source, {.epoch_samples = data.train->size()});
  EXPECT_EQ(predicted.replicas->bytes, measured.replicas->bytes);
  const double seconds = measured.evaluations.back().seconds;
  EXPECT_NEAR(predicted.step_seconds->median * double(kSteps), seconds, 0.02 * seconds);
}

struct HeldPolicy final : UpdatePolicy {
  std::string description() const override { return "held"; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub&) override { return nullptr; }
  Stops stops() const override { return Stops::held; }
};

TEST(StopsForCheckpoints, WaitForThePointOfTheCurveToWhichTheStateBelongs) {
  HeldPolicy policy;
  const ReplicaStopOptions options{
      .replicas = 3, .can_end = true, .checkpoint_steps = 1, .checkpoint_samples = 10, .begun = {4, 2, 1}};
  ReplicaStops stops(policy, options, /*samples=*/70);  // after 7 steps, 2 for each replica
  stops.note(0, 5, 85);                                 // due by samples
  EXPECT_FALSE(stops.is_due(/*held=*/false));
  stops.note(0, 6, 100);  // the ninth step of all
  EXPECT_TRUE(stops.is_due(false));
  ReplicaStops ending(policy, options, 70);
  EXPECT_TRUE(ending.end(/*decides=*/true));
  EXPECT_TRUE(ending.is_due(false)) << "an end needs no checkpoint";
}

TEST_F(ReplicaRows, CheckpointsOfARunInWhichFewReplicasWorkAtATime) {
  namespace fs = std::filesystem;
  modelled(0.01);
  experiment.batch = 15;  // two samples for the first replicas, one for the others
  experiment.time_limit = 60;
  experiment.checkpoint.every = {1, Length::Unit::steps};
  experiment.checkpoint.keep = 0;
  const Model model = build_model(experiment, data);
  const fs::path root = fs::path(::testing::TempDir()) / ("few_replicas." + std::to_string(::getpid()));
  for (const uint64_t seed : {1, 2, 3}) {
    experiment.seed = seed;
    fs::create_directories(root);
    Keeping observer;
    const Plan plan = plan_with_agreement("fedavg,fraction=0.1,rounds=6,local=8 steps", experiment, model, 10);
    const RunResult row =
        train(experiment, model, data, plan, observer, interrupted, nullptr, {.folder = root / "checkpoints"});
    EXPECT_EQ(row.status, RunStatus::ok) << row.reason;  // it would wait for the writer until the time limit
    ASSERT_TRUE(row.checkpoints);
    EXPECT_GT(row.checkpoints->written, 1);
    EXPECT_EQ(row.checkpoints->failed, 0);
    fs::remove_all(root);
  }
}

}  // namespace
}  // namespace trireme::test_support
