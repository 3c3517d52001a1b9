// Whole federated runs: their length, the records of their rounds, and clients whose values are not finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "../base/expect_error.h"
#include "replica_training.h"

namespace trireme::test_support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The tiny task with one sample of NaNs, which makes training diverge.
class OneBroken final : public Dataset {
 public:
  explicit OneBroken(std::shared_ptr<Dataset> whole) : whole_(std::move(whole)) {}
  int64_t size() const override { return whole_->size(); }
  Shape sample_shape() const override { return whole_->sample_shape(); }
  int64_t classes() const override { return whole_->classes(); }
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override {
    Samples samples = whole_->get(indices, draw);
    samples.data = samples.data.clone();
    for (size_t i = 0; i < indices.size(); ++i)
      if (indices[i] == 0) samples.data[int64_t(i)].fill_(std::numeric_limits<double>::quiet_NaN());
    return samples;
  }

 private:
  const std::shared_ptr<Dataset> whole_;
};

class FederatedRun : public Replicas {
 protected:
  FederatedRun() { experiment.replicas.shares = SampleShares::samples; }
};

TEST_F(FederatedRun, ABrokenClientIsNamedAndTheRestCounts) {
  data.train = std::make_shared<OneBroken>(train_set);
  for (const bool on_clock : {false, true}) {
    if (on_clock) modelled(0.01);
    const Outcome outcome = run("fedavg,rounds=12", 3);
    ASSERT_EQ(outcome.row.status, RunStatus::ok) << outcome.row.reason;
    ASSERT_TRUE(outcome.row.test);
    EXPECT_GT(outcome.row.test->main()->value, 0.6);
    ASSERT_EQ(outcome.row.replicas->rounds.size(), 12u);
    const std::vector<int> broken = outcome.row.replicas->rounds.front().refused_clients;
    ASSERT_EQ(broken.size(), 1u);
    for (const RoundRecord& round : outcome.row.replicas->rounds) {
      EXPECT_EQ(round.answered, 2) << round.round;
      EXPECT_EQ(round.refused_clients, broken) << round.round;
    }
    ASSERT_FALSE(outcome.row.warnings.empty());
    EXPECT_THAT(
        outcome.row.warnings.back(),
        HasSubstr(fmt::format("12 updates were refused because they were not finite: of client {}", broken.front())));
  }
}

TEST_F(FederatedRun, WithoutRoundsTheLengthEndsIt) {
  modelled(0.01);
  const Outcome three = run("fedavg", 3);
  EXPECT_EQ(three.row.replicas->rounds.size(), 3u);
  EXPECT_EQ(three.row.curve.back().samples, 3 * 210);
  experiment.length = {20, Length::Unit::steps};  // 400 samples: ends in the second round
  EXPECT_EQ(run("fedavg", 3).row.replicas->rounds.size(), 2u);
  EXPECT_EQ(run("fedavg,rounds=5", 3).row.replicas->rounds.size(), 5u);
}

TEST_F(FederatedRun, TheLastRoundIsEvaluatedOnce) {
  modelled(0.01);
  const Outcome outcome = run("fedavg,rounds=4", 3);
  ASSERT_FALSE(outcome.row.evaluations.empty());
  std::vector<int64_t> samples;
  for (const EvaluationPoint& point : outcome.row.evaluations) samples.push_back(point.samples);
  for (size_t i = 1; i < samples.size(); ++i) EXPECT_LT(samples[i - 1], samples[i]);
  EXPECT_EQ(samples.back(), outcome.row.curve.back().samples);
}

TEST_F(FederatedRun, EveryAnswerThatIsUsedHasItsStaleness) {
  modelled(0.01);
  EXPECT_THAT(run("fedavg,rounds=4", 3).row.replicas->staleness, ElementsAre(12));
  experiment.replicas.shares = SampleShares::batches;
  experiment.device_speeds = {1, 1, 0.25};
  const Outcome partial = run("partial,quorum=2,every=2 steps", 3);
  const std::vector<int64_t>& staleness = partial.row.replicas->staleness;
  const int64_t pushes_of_each = int64_t(partial.row.curve.size()) / 2;
  EXPECT_EQ(std::accumulate(staleness.begin(), staleness.end(), int64_t(0)), 3 * pushes_of_each);
  EXPECT_GT(staleness.size(), 2u);  // those of the slow replica
}

TEST_F(FederatedRun, ARunWithoutReplicasHasFailed) {
  modelled(0.01);
  experiment.replicas.clock->failures = {{.replica = 0, .at = 0.005}, {.replica = 1, .at = 0.006}};
  for (const char* strategy : {"fedavg,rounds=3", "async-average"}) {
    const Outcome outcome = run(strategy, 2);
    EXPECT_EQ(outcome.row.status, RunStatus::failed) << strategy;
    EXPECT_THAT(outcome.row.reason, HasSubstr("every replica was lost")) << strategy;
    std::string warnings;
    for (const std::string& warning : outcome.row.warnings) warnings += warning + "\n";
    EXPECT_THAT(warnings, HasSubstr("worker 0 failed")) << strategy;
    EXPECT_THAT(warnings, HasSubstr("worker 1 failed")) << strategy;
  }
}

TEST_F(FederatedRun, MemoryOfEvaluationsIsChargedToNoWorker) {
  modelled(0.01);  // in real time the server's work runs on any thread
  for (const char* strategy : {"fedavg,rounds=6", "local-sgd,every=2 steps", "easgd,period=2"}) {
    std::vector<int64_t> peaks;
    for (const Length every : {Length{100, Length::Unit::epochs}, Length{1, Length::Unit::steps}}) {
      experiment.evaluate_every = every;
      peaks.push_back(run(strategy, 2).row.memory.front().peak);
    }
    EXPECT_LE(peaks[1], peaks[0] + peaks[0] / 5) << strategy;
  }
}

TEST_F(FederatedRun, AStoppedRunReportsTheMetricsOfItsWeights) {
  struct Stopping : Keeping {
    explicit Stopping(std::atomic<bool>& flag) : stop(flag) {}
    void on_step(const StepReport& report) override { stop = report.point.step >= 20; }
    std::atomic<bool>& stop;
  };
  experiment.length = {100000, Length::Unit::epochs};
  experiment.evaluate_every = {5, Length::Unit::steps};
  const Model model = build_model(experiment, data);
  for (const char* strategy : {"fedavg", "easgd", "local-sgd,every=2 steps"}) {
    interrupted = false;
    Stopping observer(interrupted);
    const RunResult row =
        train(experiment, model, data, plan_with_agreement(strategy, experiment, model, 2), observer, interrupted);
    EXPECT_EQ(row.status, RunStatus::interrupted) << strategy;
    ASSERT_TRUE(row.test) << strategy;
    EXPECT_TRUE(std::isfinite(row.test->loss)) << strategy;
    EXPECT_FALSE(observer.weights.empty()) << strategy;
  }
}

TEST_F(FederatedRun, AnEndlessPullHoldsTheWeightsWhereTheyWere) {
  // With rate * mu = 1 each local step returns to the round's weights: of its steps (11 here) only the last one has an
  // effect.
  const Outcome free = run("fedprox,rounds=1,mu=0", 2), held = run("fedprox,rounds=1,mu=10", 2),
                one = run("fedprox,rounds=1,mu=0,local=1 steps", 2);
  experiment.optimizer.learning_rate = 1e-12;
  const Outcome before = run("fedprox,rounds=1,mu=0", 2);
  EXPECT_LT(largest_difference(before.weights, held.weights), largest_difference(before.weights, free.weights) / 3);
  EXPECT_LT(largest_difference(before.weights, held.weights), largest_difference(before.weights, one.weights) * 3);
  experiment.optimizer.learning_rate = 0.1;
  const Outcome beyond = run("fedprox,rounds=1,mu=1000", 2);
  EXPECT_EQ(beyond.row.status, RunStatus::failed);
  EXPECT_THAT(beyond.row.reason, HasSubstr("mu"));
}

TEST_F(FederatedRun, OptionsAreReadForWhatTheyAre) {
  const auto refuses = [&](std::vector<std::string> words, const std::string& strategy) {
    expect_error(Blame::user, words, [&] { run(strategy, 2); });
  };
  refuses({"easgd", "shards", "256"}, "easgd,shards=100000000");
  refuses({"strategy \"easgd,period=3,period=4\": period", "twice"}, "easgd,period=3,period=4");
  refuses({"strategy \"easgd,perod=3\": perod: unknown key"}, "easgd,perod=3");
  refuses({"beta", "must be a number"}, "easgd,beta=nan");
  refuses({"outer_learning_rate", "finite"}, "diloco,every_steps=4,outer_learning_rate=inf");
  const ConfigTable file = ConfigTable::from_string("[update.partial]\nquorum = 3\n", "x.toml");
  EXPECT_EQ(read_replica_spec(file.table("update")).options.at("partial").front(), "quorum=3");
  experiment.replicas.devices = 2;
  experiment.replicas.plan = "data,compression=bf16";
  refuses({"data,compression=bf16", "the whole weights and moments"}, "local-sgd");
}

}  // namespace
}  // namespace trireme::test_support
