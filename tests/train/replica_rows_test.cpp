// What the rows of whole runs under update policies say.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "forecast/cost_source.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "replica_training.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/agreement/replica_stops.h"

namespace trireme::test_support {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;

class ReplicaRows : public Replicas {
 public:
  ~ReplicaRows() override { fs::remove_all(root_); }

 protected:
  ReplicaRows() { fs::create_directories(root_); }

  RunResult run_with(const std::string& strategy, int workers, CheckpointUse use, TrainObserver& observer) {
    const Model model = build_model(experiment, data);
    const Plan plan = plan_with_agreement(strategy, experiment, model, workers);
    return train(experiment, model, data, plan, observer, interrupted, nullptr, std::move(use));
  }

  const fs::path root_ = fs::path(::testing::TempDir()) / ("replica_rows." + std::to_string(::getpid()));
};

TEST_F(ReplicaRows, ABatchPerDeviceIsTheSameForAllReplicasAndForEach) {
  modelled(0.01);
  experiment.batch = experiment.batch_per_device = 5;
  const Model model = build_model(experiment, data);
  for (const bool of_replica : {false, true}) {
    experiment.replicas.batch_per_replica = of_replica;
    const Plan pairs = plan_with_agreement("local-sgd,every=2 steps,inner=data=2", experiment, model, 4);
    EXPECT_EQ(pairs.replicas, 2);
    EXPECT_EQ(whole_experiment(experiment, pairs).batch, 20);
    EXPECT_EQ(with_batch_of(experiment, pairs).batch, of_replica ? 10 : 20);
    EXPECT_EQ(with_batch_of(experiment, pairs.name, 4).batch, of_replica ? 10 : 20);
    const Plan workers = plan_with_agreement("synchronous", experiment, model, 4);
    EXPECT_EQ(whole_experiment(experiment, workers).batch, 20);
    EXPECT_EQ(with_batch_of(experiment, workers).batch, of_replica ? 5 : 20);
    Plan without_policy;
    without_policy.devices = 4;
    EXPECT_EQ(whole_experiment(experiment, without_policy).batch, 20);
  }
}

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
  experiment.time_limit = 0.5;
  for (const char* strategy : {"local-sgd,every=2 steps", "easgd"}) {
    const RunResult row = run(strategy, 2).row;
    EXPECT_EQ(row.status, RunStatus::timed_out) << strategy;
    EXPECT_GT(row.curve.size(), 12u) << strategy;
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
  // The prediction also has the clients' last fetch, which comes after the last round. A single round would be 50 %
  // off.
  EXPECT_NEAR(predicted.step_seconds->median * double(kSteps), seconds, 0.08 * seconds);
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
  modelled(0.01);
  experiment.batch = 15;  // two samples for the first replicas, one for the others
  experiment.time_limit = 60;
  experiment.checkpoint.every = {1, Length::Unit::steps};
  experiment.checkpoint.keep = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    experiment.seed = seed;
    Keeping observer;
    const RunResult row =
        run_with("fedavg,fraction=0.1,rounds=6,local=8 steps", 10, {.folder = root_ / std::to_string(seed)}, observer);
    EXPECT_EQ(row.status, RunStatus::ok) << row.reason;  // it would wait for the writer until the time limit
    ASSERT_TRUE(row.checkpoints);
    EXPECT_GT(row.checkpoints->written, 1);
    EXPECT_EQ(row.checkpoints->failed, 0);
  }
}

TEST_F(ReplicaRows, RoundsOfAResumedRunHaveTheTimesOfTheWholeRun) {
  constexpr double kStep = 0.01;
  const std::string strategy = "fedavg,rounds=6,local=5 steps";
  modelled(kStep);
  experiment.replicas.shares = SampleShares::samples;
  experiment.batch = 21;
  experiment.checkpoint.every = {12, Length::Unit::steps};
  experiment.checkpoint.keep = 0;
  Keeping observer;
  const RunResult whole = run_with(strategy, 3, {.folder = root_ / "whole"}, observer);
  ASSERT_EQ(whole.status, RunStatus::ok) << whole.reason;
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(root_ / "whole")) checkpoints.push_back(entry.path());
  ASSERT_GT(checkpoints.size(), 1u);
  const Model model = build_model(experiment, data);
  CheckpointUse use;
  use.resumed = open_resumption(std::ranges::min(checkpoints), plan_with_agreement(strategy, experiment, model, 3),
                                experiment, model, data)
                    .checkpoint;
  const RunResult resumed = run_with(strategy, 3, std::move(use), observer);
  ASSERT_EQ(resumed.status, RunStatus::ok) << resumed.reason;
  ASSERT_EQ(resumed.replicas->rounds.size(), whole.replicas->rounds.size());
  for (size_t k = 0; k < whole.replicas->rounds.size(); ++k) {
    EXPECT_NEAR(whole.replicas->rounds[k].seconds, 5 * kStep * double(k + 1), 1e-9);
    // Replicas that were a step ahead when the run stopped begin again at the time of the others.
    EXPECT_NEAR(resumed.replicas->rounds[k].seconds, whole.replicas->rounds[k].seconds, 1.01 * kStep) << k;
  }
}

TEST_F(ReplicaRows, AnEpochIsAsManySamplesAsTheTrainingSetHas) {
  modelled(0.01);
  experiment.replicas.shares = SampleShares::quantity;
  for (const char* strategy : {"local-sgd,every=2 steps", "synchronous"}) {
    const RunResult row = run(strategy, 3).row;
    ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
    const EvaluationPoint& last = row.evaluations.back();
    EXPECT_NEAR(last.epoch, double(last.samples) / double(data.train->size()), 1e-12) << strategy;
    EXPECT_NEAR(*row.epoch_seconds * last.epoch, last.seconds, 1e-9) << strategy;
  }
}

TEST_F(ReplicaRows, AStepIsReportedWithItsOwnTime) {
  struct Reports : Keeping {
    void on_step(const StepReport& report) override { all.push_back(report); }
    std::vector<StepReport> all;
  } observer;
  modelled(0.01);
  experiment.replicas.clock->link = {.bandwidth = 1e5, .latency = 0};  // steps with an exchange take far longer
  const RunResult row = run_with("local-sgd,every=4 steps", 2, {}, observer);
  ASSERT_EQ(observer.all.size(), row.curve.size());
  for (size_t k = 0; k < row.curve.size(); ++k)
    EXPECT_NEAR(observer.all[k].step_seconds, row.curve[k].seconds - (k > 0 ? row.curve[k - 1].seconds : 0), 1e-12);
}

TEST_F(ReplicaRows, SharesAndBytesAreThoseOfDevices) {
  const Model model = build_model(experiment, data);
  Keeping observer;
  const int64_t inner = train(experiment, model, data, make_plan("data", experiment, model, 2), observer, interrupted)
                            .bytes_per_step.value();
  ASSERT_GT(inner, 0);
  experiment.replicas.devices = 2;
  experiment.replicas.plan = "data";
  for (const bool on_clock : {false, true}) {
    if (on_clock) modelled(0.01);
    const RunResult row = run("local-sgd,every=2 steps", 4).row;
    ASSERT_EQ(row.status, RunStatus::ok) << row.reason;
    ASSERT_EQ(row.busy_share.size(), 4u);
    for (const double share : row.busy_share) {
      EXPECT_GT(share, 0);
      EXPECT_LE(share, 1);
    }
    EXPECT_GE(*row.exposed_communication, 0);
    EXPECT_LE(*row.exposed_communication, 1);
    ASSERT_GT(row.replicas->bytes, 0);
    const double exchanged = double(row.replicas->bytes) / double(4 * row.curve.size());
    EXPECT_NEAR(double(*row.bytes_per_step), double(inner) + exchanged, 0.01 * double(inner));
    const Plan plan = plan_with_agreement("local-sgd,every=2 steps", experiment, model, 4);
    const CostSource source = described_source(experiment, model, slow_cluster(4), device_numbers(0, 4));
    const RunResult predicted = predict(experiment, model, plan, source, {.epoch_samples = data.train->size()});
    EXPECT_EQ(predicted.busy_share.size(), 4u);
    EXPECT_NEAR(double(*predicted.bytes_per_step), double(*row.bytes_per_step), 0.2 * double(*row.bytes_per_step));
  }
}

}  // namespace
}  // namespace trireme::test_support
