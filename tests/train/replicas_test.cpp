// Whole runs under update policies, compared with runs on one device.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "../base/expect_error.h"
#include "experiment/replica_batches.h"
#include "replica_training.h"
#include "trireme/config.h"

namespace trireme::test_support {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Replicas, AnAverageAfterEveryStepIsOneDeviceWithTheWholeBatch) {
  const Outcome one = single();
  for (const bool on_clock : {false, true}) {
    if (on_clock) modelled(0.01);
    const Outcome two = run("local-sgd,every=1 steps", 2);
    EXPECT_EQ(two.row.status, RunStatus::ok) << two.row.reason;
    EXPECT_LT(largest_difference(one.weights, two.weights), 1e-12);
    ASSERT_EQ(two.row.evaluations.size(), one.row.evaluations.size());
    for (size_t e = 0; e < one.row.evaluations.size(); ++e) {
      EXPECT_NEAR(two.row.evaluations[e].loss, one.row.evaluations[e].loss, 1e-12);
      EXPECT_EQ(two.row.evaluations[e].samples, one.row.evaluations[e].samples);
    }
    ASSERT_EQ(two.row.curve.size(), one.row.curve.size());
    EXPECT_EQ(two.steps, one.steps);
    for (size_t k = 0; k < one.row.curve.size(); ++k)
      EXPECT_NEAR(two.row.curve[k].loss, one.row.curve[k].loss, 1e-12) << k;
  }
}

TEST_F(Replicas, OneReplicaOfAnyPolicyThatIsNotDampedIsOneDevice) {
  const Outcome one = single();
  for (const char* strategy : {"local-sgd", "async-average,share=samples", "partial", "downpour",
                               "diloco,every_steps=4,outer_learning_rate=1,outer_momentum=0", "fedavg,rounds=3"}) {
    const Outcome same = run(strategy, 1);
    EXPECT_EQ(same.row.status, RunStatus::ok) << strategy << ": " << same.row.reason;
    EXPECT_LT(largest_difference(one.weights, same.weights), 1e-12) << strategy;
  }
}

/// Adam's first step changes each weight by the learning rate, because its bias correction makes the moments those of
/// one gradient. With moments that are reset after every step, every step is a first one.
TEST_F(Replicas, ResetMomentsAreThoseOfAFreshOptimizer) {
  constexpr double kRate = 0.01;
  experiment.optimizer = {.kind = &kAdamW, .learning_rate = kRate, .weight_decay = 0, .epsilon = 1e-30};
  for (const char* inner : {"single", "data=2", "data=2,sharding=zero1", "pipeline=2,micro_batches=2"}) {
    SCOPED_TRACE(inner);
    const int workers = inner == std::string("single") ? 1 : 2;
    const auto weights_after = [&](int rounds) {
      return run("fedavg,local=1 steps,rounds=" + std::to_string(rounds) + ",inner=" + inner, workers).weights;
    };
    const TensorMap before = weights_after(7), after = weights_after(8);
    int64_t weights = 0, changed = 0;
    for (const auto& [name, values] : after) {
      const at::Tensor change = (values - before.at(name)).abs();
      EXPECT_LT(change.max().item<double>(), kRate * (1 + 1e-6)) << name;
      weights += change.numel();
      changed += change.gt(kRate * (1 - 1e-6)).sum().item<int64_t>();
    }
    EXPECT_GT(changed, weights / 2) << "a weight without a gradient stays";
  }
}

/// Each replica measures the gradient of its own samples; a point of the curve is the mean over the replicas.
TEST_F(Replicas, TheNormOfTheGradientIsThatOfEachReplica) {
  experiment.gradient_norm = true;
  const Outcome one = single(), same = run("local-sgd", 1), two = run("local-sgd,every=4 steps", 2);
  ASSERT_EQ(same.row.curve.size(), one.row.curve.size());
  for (size_t k = 0; k < one.row.curve.size(); ++k) {
    EXPECT_NEAR(same.row.curve[k].gradient_norm.value_or(NAN), *one.row.curve[k].gradient_norm, 1e-9) << k;
    EXPECT_EQ(same.row.curve[k].learning_rate, one.row.curve[k].learning_rate) << k;
  }
  for (const CurvePoint& point : two.row.curve) {
    EXPECT_GT(point.gradient_norm.value_or(0), 0);
    EXPECT_NEAR(point.learning_rate, 0.1, 1e-12);
  }
}

/// Sentences of up to 6 words out of 50. Some of the first 10 words mark one class, some of the next 10 the other.
class Sentences final : public Dataset {
 public:
  Sentences(int64_t size, uint64_t seed) : size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }
  Shape sample_shape() const override { return {kLongest}; }
  int64_t classes() const override { return 2; }
  int64_t vocabulary() const override { return 50; }
  Samples get(std::span<const int64_t> indices, const Draw&) const override {
    const auto n = int64_t(indices.size());
    Samples samples{at::full({n, kLongest}, kPadding, at::kLong), at::empty({n}, at::kLong)};
    const Philox random(random_key(seed_, "sentences"));
    for (int64_t i = 0; i < n; ++i) {
      const auto draw = [&](int64_t k) { return random.uniform(uint64_t(indices[size_t(i)] * (kLongest + 2) + k)); };
      const int64_t label = draw(kLongest) < 0.5, length = 2 + int64_t(draw(kLongest + 1) * double(kLongest - 1));
      int64_t* words = samples.data.data_ptr<int64_t>() + i * kLongest;
      words[0] = 1 + 10 * label + int64_t(draw(0) * 10);
      for (int64_t k = 1; k < length; ++k) words[k] = 21 + int64_t(draw(k) * 29);
      samples.target.data_ptr<int64_t>()[i] = label;
    }
    return samples;
  }

 private:
  static constexpr int64_t kLongest = 6;
  const int64_t size_;
  const uint64_t seed_;
};

TEST_F(Replicas, HogwildOnOneThreadIsOneDeviceBitForBit) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "hogwild writes to the host's memory";
  for (const Precision precision : {Precision::fp32, Precision::fp64, Precision::bf16})
    for (const double decay : {0.0, 0.01}) {
      experiment.precision = precision;
      experiment.optimizer.weight_decay = decay;  // with decay every row of a table changes in every step
      const Outcome one = single(), same = run("hogwild", 1);
      EXPECT_EQ(same.row.status, RunStatus::ok) << same.row.reason;
      EXPECT_EQ(largest_difference(one.weights, same.weights), 0);
      ASSERT_EQ(same.row.curve.size(), one.row.curve.size());
      for (size_t k = 0; k < one.row.curve.size(); ++k) EXPECT_EQ(same.row.curve[k].loss, one.row.curve[k].loss) << k;
      EXPECT_EQ(same.row.replicas->bytes, 0);
    }
}

TEST_F(Replicas, HogwildTrainsTablesByRows) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "hogwild writes to the host's memory";
  data.train = std::make_shared<Sentences>(300, 1);
  data.test = std::make_shared<Sentences>(200, 2);
  experiment.model_name = "bag-of-words";
  experiment.model_options = {{"width", 5}};
  experiment.length = {40, Length::Unit::epochs};
  experiment.optimizer.learning_rate = 2;
  const Outcome one = single();
  EXPECT_GT(one.row.test->main()->value, 0.9);
  EXPECT_EQ(largest_difference(one.weights, run("hogwild", 1).weights), 0);
  experiment.optimizer.weight_decay = 1e-30;  // updates the whole table, without a visible change
  EXPECT_LT(largest_difference(one.weights, run("hogwild", 1).weights), 1e-12);
  experiment.optimizer.weight_decay = 0;
  EXPECT_GT(run("hogwild", 2).row.test->main()->value, 0.9);
  modelled(0.01);
  experiment.device_speeds = {1, 0.6, 0.3};
  const Outcome a = run("hogwild", 3), b = run("hogwild", 3);
  EXPECT_GT(a.row.test->main()->value, 0.9);
  EXPECT_EQ(largest_difference(a.weights, b.weights), 0);
  EXPECT_EQ(a.row.replicas->staleness, b.row.replicas->staleness);
}

TEST_F(Replicas, EachMayHaveAGpuOfItsOwn) {
  if (device_under_test() != "strict") GTEST_SKIP() << "needs several devices";
  experiment.length = {1, Length::Unit::epochs};
  for (const std::string strategy :
       {"local-sgd", "async-average", "partial", "easgd", "eamsgd,momentum=0.5", "downpour,push_every=2,fetch_every=2",
        "shat", "gossip,every=2 steps", "diloco,every_steps=2", "streaming-diloco,every_steps=4",
        "streaming-diloco,every_steps=4,outer_gradients=full", "fedavg,rounds=1", "fedprox,rounds=1",
        "fedadam,rounds=1"}) {
    SCOPED_TRACE(strategy);
    experiment.device = c10::DeviceType::CPU;  // all on one device: where the test's environment places them
    const Outcome on_one = run(strategy, 3);
    experiment.device = c10::DeviceType::PrivateUse1;
    const Outcome on_three = run(strategy, 3);
    EXPECT_EQ(on_three.row.status, RunStatus::ok) << on_three.row.reason;
    if (strategy.starts_with("local-sgd") || strategy.find("diloco") != strategy.npos) {  // do not depend on timing
      EXPECT_LT(largest_difference(on_one.weights, on_three.weights), 1e-12);
    }
    EXPECT_TRUE(on_three.row.test);
  }
  experiment.replicas.devices = 2;
  expect_error(Blame::user, {"share one copy", "zero1"}, [&] { run("local-sgd,inner=data", 4); });
  expect_error(Blame::user, {"hogwild", "one memory", "cores"}, [&] { run("hogwild", 2); });
}

TEST_F(Replicas, HogwildHasNoLinks) {
  experiment.links = LinkSchedule{{1e6, 0}, {}};
  expect_error(Blame::user, {"cluster.link", "memory"}, [&] { run("hogwild", 2); });
  experiment.links.reset();
  modelled(0.01);
  experiment.replicas.clock->link = {1e6, 0};
  expect_error(Blame::user, {"update.virtual.link", "memory"}, [&] { run("hogwild", 2); });
}

TEST_F(Replicas, EveryPolicyLearnsInRealAndInModelledTime) {
  experiment.length = {30, Length::Unit::epochs};
  experiment.evaluate_every = {10, Length::Unit::epochs};
  for (const bool on_clock : {false, true}) {
    if (on_clock) modelled(0.01);
    for (const char* strategy :
         {"local-sgd", "async-average", "partial", "easgd", "eamsgd,momentum=0.5", "hogwild",
          "downpour,push_every=2,fetch_every=2", "shat", "diloco,every_steps=5", "streaming-diloco,every_steps=8",
          "fedavg,rounds=30", "fedprox,rounds=30", "fedadam,rounds=30"}) {
      if (strategy == std::string("hogwild") && device_under_test() != "cpu") continue;
      const Outcome outcome = run(strategy, 3);
      EXPECT_EQ(outcome.row.status, RunStatus::ok) << strategy << ": " << outcome.row.reason;
      ASSERT_TRUE(outcome.row.test) << strategy;
      EXPECT_GT(outcome.row.test->main()->value, 0.6) << strategy << (on_clock ? ", modelled" : "");
      EXPECT_GE(outcome.row.evaluations.size(), 2u) << strategy;
      ASSERT_TRUE(outcome.row.replicas);
      EXPECT_EQ(outcome.row.replicas->replicas, 3);
      EXPECT_EQ(outcome.row.replicas->bytes > 0, strategy != std::string("hogwild")) << strategy;
    }
  }
}

TEST_F(Replicas, ARoundIsEvaluatedAsItWasWhenItWasOver) {
  experiment.evaluate_every = {1, Length::Unit::steps};
  const Outcome three = run("fedavg,rounds=3", 2);
  ASSERT_GE(three.row.evaluations.size(), 3u) << three.row.reason;
  for (int rounds : {1, 2}) {
    const Outcome fewer = run(fmt::format("fedavg,rounds={}", rounds), 2);
    EXPECT_DOUBLE_EQ(three.row.evaluations[size_t(rounds - 1)].loss, fewer.row.test->loss) << rounds;
  }
}

TEST_F(Replicas, ThePlanInsideMakesNoDifference) {
  experiment.batch = 24;
  experiment.optimizer.momentum = 0.9;
  const std::string strategy = "local-sgd,every=3 steps,moments=averaged";
  const Outcome plain = run(strategy, 2);
  experiment.replicas.devices = 2;
  for (const char* plan : {"data", "tensor", "pipeline"}) {
    experiment.replicas.plan = plan;
    const Outcome inside = run(strategy, 4);
    EXPECT_EQ(inside.row.status, RunStatus::ok) << plan << ": " << inside.row.reason;
    EXPECT_LT(largest_difference(plain.weights, inside.weights), 1e-10) << plan;
  }
}

TEST_F(Replicas, TheModelledClockIsDeterministic) {
  modelled(0.01);
  experiment.replicas.clock->jitter = 0.3;
  experiment.replicas.clock->link = {1e6, 1e-3};
  experiment.replicas.clock->server_link = {1e6, 1e-3};
  for (const char* strategy : {"async-average", "downpour"}) {
    const Outcome a = run(strategy, 4), b = run(strategy, 4);
    EXPECT_EQ(largest_difference(a.weights, b.weights), 0) << strategy;
    ASSERT_EQ(a.row.curve.size(), b.row.curve.size());
    for (size_t k = 0; k < a.row.curve.size(); ++k) EXPECT_EQ(a.row.curve[k].seconds, b.row.curve[k].seconds);
  }
}

TEST_F(Replicas, ASlowReplicaDelaysNoOtherWithoutWaiting) {
  modelled(0.01);
  experiment.device_speeds = {1, 1, 0.25};
  const int64_t steps = 11 * 3;
  const Outcome synchronous = run("local-sgd,every=1 steps", 3), free = run("async-average", 3);
  EXPECT_NEAR(synchronous.row.curve.back().seconds, double(steps) * 0.04, 1e-9);
  EXPECT_NEAR(synchronous.row.replicas->idle_share, 0.5, 1e-6);  // two of three wait for three quarters of the time
  // The fast replicas end their steps after a quarter of the time.
  const auto quick = std::count_if(free.row.curve.begin(), free.row.curve.end(),
                                   [&](const CurvePoint& p) { return p.seconds < double(steps) * 0.01 + 1e-9; });
  EXPECT_GE(quick, steps * 2 / 3);
}

TEST_F(Replicas, MemoryAndDevicesAreThoseOfEachReplica) {
  const Outcome outcome = run("local-sgd", 3);
  ASSERT_EQ(outcome.row.memory.size(), 3u);
  for (const MemoryUse& use : outcome.row.memory) EXPECT_GT(use.at_peak[size_t(MemoryCategory::weights)], 0);
  EXPECT_EQ(outcome.row.busy_share.size(), 3u);
}

TEST_F(Replicas, RefusesWhatItCannotDo) {
  expect_error(Blame::user, {"20", "30 replicas"}, [&] { run("local-sgd", 30); });
  expect_error(Blame::user, {"local-sgd", "evry"}, [&] { run("local-sgd,evry=3 steps", 2); });
  experiment.optimizer.momentum = 0.9;
  expect_error(Blame::user, {"downpour", "momentum"}, [&] { run("downpour", 2); });
  expect_error(Blame::user, {"hogwild", "momentum"}, [&] { run("hogwild", 2); });
  experiment.replicas.devices = 2;
  expect_error(Blame::user, {"plan_devices = 2", "3 workers"}, [&] { run("local-sgd", 3); });
  experiment.replicas.devices = 1;
  experiment.optimizer.ema = 0.9;
  expect_error(Blame::user, {"ema"}, [&] { run("local-sgd", 2); });
}

TEST_F(Replicas, AStepThatIsNoNumberEndsTheRun) {
  experiment.optimizer.learning_rate = 1e200;
  const Outcome outcome = run("local-sgd", 2);
  EXPECT_EQ(outcome.row.status, RunStatus::failed);
  EXPECT_THAT(outcome.row.reason, HasSubstr("diverged"));
}

TEST_F(Replicas, OptionsOfTheFileAreDefaultsOfTheStrategy) {
  const ConfigTable file = ConfigTable::from_string(
      "[update]\nshares = \"samples\"\n[update.local-sgd]\nevery = \"1 steps\"\n[update.virtual]\n"
      "step_seconds = \"10 ms\"\n[update.virtual.link]\nbandwidth = \"1 MB/s\"\n",
      "x.toml");
  const ReplicaSpec spec = read_replica_spec(file.table("update"));
  file.finish();
  EXPECT_EQ(spec.shares, SampleShares::samples);
  EXPECT_EQ(spec.clock->step_seconds, 0.01);
  EXPECT_EQ(spec.clock->link.bandwidth, 1e6);
  EXPECT_TRUE(is_update_policy("local-sgd,every=2 epochs"));
  EXPECT_FALSE(is_update_policy("data"));
  EXPECT_NE(make_policy("local-sgd", spec, {2, 1, true}), nullptr);
  expect_error(Blame::user, {"every"}, [&] { make_policy("local-sgd,every=never", spec, {2, 1, true}); });
}

/// Shares of the samples: each sample occurs once; sizes; labels.
class Shares : public TinyTraining {
 protected:
  std::vector<std::vector<int64_t>> divide(SampleShares shares, int replicas, double alpha = 0.5) {
    ReplicaSpec spec;
    spec.shares = shares;
    spec.alpha = alpha;
    const auto parts = divide_samples(*train_set, spec, replicas, 7);
    std::vector<int64_t> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all.size(), size_t(train_set->size()));
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], int64_t(i));
    return parts;
  }
  std::map<int64_t, int> labels_in(const std::vector<int64_t>& part) {
    const at::Tensor labels = train_set->get(part, {}).target;
    std::map<int64_t, int> counts;
    for (int64_t i = 0; i < labels.numel(); ++i) ++counts[labels[i].item<int64_t>()];
    return counts;
  }
};

TEST_F(Shares, EverySampleIsSomewhereOnce) {
  for (int replicas : {1, 3, 7}) {
    for (const auto& part : divide(SampleShares::samples, replicas))
      EXPECT_NEAR(double(part.size()), 210.0 / replicas, 1);
    for (const auto& part : divide(SampleShares::labels, replicas))
      EXPECT_NEAR(double(part.size()), 210.0 / replicas, 2);
    divide(SampleShares::dirichlet, replicas);
  }
}

TEST_F(Shares, ByQuantityReplicasHaveUnequalSharesOfAllLabels) {
  size_t least = 210, most = 0;
  for (const auto& part : divide(SampleShares::quantity, 3, 0.5)) {
    least = std::min(least, part.size());
    most = std::max(most, part.size());
    if (part.size() > 40) {
      EXPECT_EQ(labels_in(part).size(), 4u);
    }
  }
  EXPECT_GT(most, 2 * least);
  for (const auto& part : divide(SampleShares::quantity, 3, 1e5)) EXPECT_NEAR(double(part.size()), 70, 3);
}

TEST_F(Shares, ByLabelAReplicaHasFewLabels) {
  for (const auto& part : divide(SampleShares::labels, 20))
    EXPECT_LE(labels_in(part).size(), 4u);  // each of two shards may contain two labels
  double narrow = 0, wide = 0;
  for (const auto& part : divide(SampleShares::dirichlet, 5, 1000)) wide += double(labels_in(part).size());
  for (const auto& part : divide(SampleShares::dirichlet, 5, 0.2)) narrow += double(labels_in(part).size());
  EXPECT_EQ(wide, 20);
  EXPECT_LT(narrow, wide);
}

TEST_F(Shares, BatchesOfAllReplicasAreTheWholeOnes) {
  const ReplicaBatches parts(experiment, data, 3, true);
  const Batches whole(experiment, data);
  EXPECT_EQ(parts.steps_per_epoch(0), 11);
  for (int64_t step : {0, 10, 11, 25}) {
    std::vector<int64_t> joined;
    for (int r = 0; r < 3; ++r) {
      const PlannedBatch part = parts.training(r, step);
      EXPECT_EQ(int64_t(part.indices.size()), parts.samples_in(r, step));
      joined.insert(joined.end(), part.indices.begin(), part.indices.end());
    }
    EXPECT_EQ(joined, whole.training(step).indices) << step;
  }
  const ReplicaBatches many(experiment, data, 15, true);  // the last batch of an epoch has 10 samples
  EXPECT_EQ(many.steps_per_epoch(0), 10);
  std::vector<int64_t> second = whole.training(11).indices;
  second.resize(2);
  EXPECT_EQ(many.training(0, 10).indices, second);
}

TEST_F(Shares, DataOfItsOwnAreAllAReplicas) {
  experiment.own_data = true;
  experiment.replicas.shares = SampleShares::labels;  // does not apply: all replicas have their own data
  const ReplicaBatches batches(experiment, data, 4, false);
  const int64_t batch = experiment.batch / 4, samples = train_set->size();
  EXPECT_EQ(batches.samples_per_epoch(), samples);
  std::vector<std::vector<int64_t>> seen(4);
  for (int r = 0; r < 4; ++r) {
    ASSERT_EQ(batches.steps_per_epoch(r), (samples + batch - 1) / batch);
    for (int64_t step = 0; step < batches.steps_per_epoch(r); ++step) {
      const std::vector<int64_t> part = batches.training(r, step).indices;
      EXPECT_EQ(int64_t(part.size()), batches.samples_in(r, step));
      seen[size_t(r)].insert(seen[size_t(r)].end(), part.begin(), part.end());
    }
  }
  EXPECT_NE(seen[0], seen[1]) << "orders of their own";
  std::vector<int64_t> every(static_cast<size_t>(samples));
  std::iota(every.begin(), every.end(), 0);
  for (std::vector<int64_t>& mine : seen) {
    std::sort(mine.begin(), mine.end());
    EXPECT_EQ(mine, every);
  }
}

TEST_F(Shares, ReplicasThatMeetMakeEquallyManySteps) {
  experiment.replicas.shares = SampleShares::dirichlet;
  experiment.replicas.alpha = 0.5;
  const auto own = divide_samples(*train_set, experiment.replicas, 4, experiment.seed);
  const ReplicaBatches apart(experiment, data, 4, false), together(experiment, data, 4, true);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(together.steps_per_epoch(r), together.steps_per_epoch(0));
    const int64_t steps = apart.steps_per_epoch(r);
    for (const ReplicaBatches* batches : {&apart, &together}) {  // each sample once before any is repeated
      std::vector<int64_t> seen;
      for (int64_t step = 0; step < steps; ++step) {
        const std::vector<int64_t> part = batches->training(r, step).indices;
        EXPECT_EQ(int64_t(part.size()), batches->samples_in(r, step));
        seen.insert(seen.end(), part.begin(), part.end());
      }
      seen.resize(own[size_t(r)].size());
      std::sort(seen.begin(), seen.end());
      EXPECT_EQ(seen, own[size_t(r)]);
    }
  }
}

TEST_F(Replicas, SamplesOfTheirOwnUnderAllPolicies) {
  for (const SampleShares shares : {SampleShares::samples, SampleShares::labels, SampleShares::dirichlet})
    for (const char* strategy :
         {"local-sgd,every=3 steps", "async-average", "diloco,every_steps=4", "fedavg,rounds=3,fraction=0.5"}) {
      experiment.replicas.shares = shares;
      const Outcome outcome = run(strategy, 4);
      EXPECT_EQ(outcome.row.status, RunStatus::ok) << strategy << ", " << name_of(shares) << ": " << outcome.row.reason;
      EXPECT_FALSE(outcome.weights.empty());
    }
}

TEST_F(Replicas, SamplesThatAreLeftOutOfAnEpochAreNamed) {
  experiment.batch = 26;  // eight steps per epoch, and 2 of the 210 samples
  EXPECT_THAT(run("local-sgd,every=1 steps", 4).row.warnings,
              Contains(HasSubstr("leaves out its last 2 samples: 4 replicas")));
  EXPECT_THAT(run("local-sgd,every=1 steps", 2).row.warnings, Not(Contains(HasSubstr("leaves out"))));
  use_text();
  EXPECT_THAT(run("local-sgd,every=1 steps", 2).row.warnings,
              Contains(AllOf(HasSubstr("its last 1 sample:"), HasSubstr("in a text they are always the same"))));
}

}  // namespace
}  // namespace trireme::test_support
