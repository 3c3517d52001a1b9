// Whole runs on the modelled clock: synchronous training compared with one device, and with times from formulas.
#include <gmock/gmock.h>

#include <cmath>

#include "../base/expect_error.h"
#include "experiment/replica_batches.h"
#include "forecast/modelled_source.h"
#include "profile/layer_sites.h"
#include "profile/profile.h"
#include "program/program.h"
#include "replica_training.h"
#include "trireme/cluster.h"
#include "trireme/config.h"

namespace trireme::test_support {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStepsPerEpoch = 11, kEpochs = 3;  // 210 samples in batches of 20: the last has 10
constexpr double kStep = 0.01, kSample = 0.001;

class ModelledRun : public Replicas {
 protected:
  ModelledRun() {
    modelled(kStep);
    clock().sample_seconds = kSample;
  }
  ModelledClock& clock() { return *experiment.replicas.clock; }
  /// Computing time of the whole run for the slowest worker, given its samples in a batch of 20 and in one of 10.
  static double computing(double of_20, double of_10, double speed) {
    return double(kEpochs) * (10 * (kStep + of_20 * kSample) + (kStep + of_10 * kSample)) / speed;
  }
  static double seconds(const Outcome& outcome) { return outcome.row.evaluations.back().seconds; }
};

TEST_F(ModelledRun, SynchronousIsOneDeviceWithTheWholeBatch) {
  for (const auto kind : {&kSgd, &kAdam}) {
    experiment.optimizer.kind = kind;
    experiment.optimizer.momentum = kind == &kSgd ? 0.9 : 0;
    experiment.optimizer.learning_rate = kind == &kSgd ? 0.1 : 0.01;
    const Outcome one = single();
    for (const char* strategy : {"synchronous", "synchronous,shares=speed"}) {
      experiment.device_speeds = {1, 0.5, 2};
      const Outcome three = run(strategy, 3);
      EXPECT_EQ(three.row.status, RunStatus::ok) << three.row.reason;
      EXPECT_LT(largest_difference(one.weights, three.weights), 1e-12) << strategy << ", " << kind->name;
      ASSERT_EQ(three.row.curve.size(), one.row.curve.size());
      for (size_t k = 0; k < one.row.curve.size(); ++k) {
        EXPECT_NEAR(three.row.curve[k].loss, one.row.curve[k].loss, 1e-12) << k;
        EXPECT_EQ(three.row.curve[k].samples, one.row.curve[k].samples);
      }
      ASSERT_EQ(three.row.evaluations.size(), one.row.evaluations.size());
      for (size_t e = 0; e < one.row.evaluations.size(); ++e)
        EXPECT_NEAR(three.row.evaluations[e].loss, one.row.evaluations[e].loss, 1e-12);
    }
    experiment.device_speeds.clear();
  }
}

TEST_F(ModelledRun, ASynchronousStepTakesTheSlowestWorkersTimeAndARing) {
  clock().link = {.bandwidth = 1e6, .latency = 1e-3};
  const Outcome four = run("synchronous", 4);
  int64_t elements = 0;  // in the bucket; parameters start at multiples of 16 elements
  for (const auto& [name, tensor] : four.weights)
    elements += (tensor.numel() + kBucketAlignment - 1) / kBucketAlignment * kBucketAlignment;
  ASSERT_EQ(elements % 4, 0);
  const double bytes = 2.0 * 3 / 4 * double(elements) * 8;  // sent by each worker: a ring all-reduce in fp64
  const double rounds = 4;                                  // halving and doubling among four, in both halves
  const double exchange = bytes / 1e6 + rounds * 1e-3;
  const int64_t steps = kStepsPerEpoch * kEpochs;
  EXPECT_NEAR(seconds(four), computing(5, 3, 1) + double(steps) * exchange,
              1e-9);  // of 10 samples the first two workers have 3 each
  ASSERT_TRUE(four.row.replicas);
  EXPECT_EQ(four.row.replicas->replicas, 4);
  EXPECT_EQ(four.row.replicas->bytes, int64_t(bytes) * 4 * steps);
  EXPECT_EQ(four.row.bytes_per_step, int64_t(bytes));
  EXPECT_NEAR(*four.row.exposed_communication, double(steps) * exchange / seconds(four), 1e-9);
  EXPECT_EQ(four.row.busy_share.size(), 4u);
  // Averaging weights after every step uses the same links for as long, but other code: the hub's collectives.
  const Outcome averaged = run("local-sgd,every=1 steps", 4);
  EXPECT_NEAR(seconds(four), seconds(averaged), 1e-9);
  EXPECT_EQ(four.row.replicas->bytes, averaged.row.replicas->bytes);
  EXPECT_NEAR(four.row.replicas->idle_share, averaged.row.replicas->idle_share, 1e-9);
}

TEST_F(ModelledRun, SharesBySpeedSpareTheSlowOne) {
  experiment.device_speeds = {1, 1, 1, 0.25};
  experiment.batch = 26;  // 8 steps per epoch; the other 2 samples are too few for four workers
  clock().step_seconds = 0;
  const Outcome equal = run("synchronous", 4), fair = run("synchronous,shares=speed", 4);
  EXPECT_NEAR(seconds(equal), kEpochs * 8 * 6 * kSample / 0.25, 1e-9);  // 7, 7, 6 and 6 samples
  EXPECT_NEAR(equal.row.replicas->idle_share, (17.0 + 17 + 18) / (4 * 24), 1e-9);
  EXPECT_NEAR(seconds(fair), kEpochs * 8 * 8 * kSample, 1e-9);  // 8, 8, 8 and 2
  EXPECT_NEAR(fair.row.replicas->idle_share, 0, 1e-9);
  EXPECT_LT(largest_difference(equal.weights, fair.weights), 1e-12);
}

TEST_F(ModelledRun, JitterOfSynchronousWorkersIsThatOfReplicas) {
  clock().jitter = 0.4;
  clock().straggle_probability = 0.1;
  clock().straggle_factor = 3;
  const Outcome gradients = run("synchronous", 3), weights = run("local-sgd,every=1 steps", 3);
  EXPECT_NEAR(seconds(gradients), seconds(weights), 1e-9);
  const Outcome again = run("synchronous", 3);
  EXPECT_EQ(seconds(gradients), seconds(again));
  EXPECT_EQ(largest_difference(gradients.weights, again.weights), 0);
}

TEST_F(ModelledRun, SynchronousWorkersMayHaveSamplesOfTheirOwn) {
  experiment.replicas.shares = SampleShares::labels;
  const ReplicaBatches batches(experiment, data, 3, true);
  for (int64_t step : {0, 5, 14}) {
    const std::vector<int64_t> all = batches.together(step).indices;
    ASSERT_EQ(int64_t(all.size()), batches.samples_together(step));
    for (int w = 0; w < 3; ++w) {
      const Range range = share_of(int64_t(all.size()), 3, w);
      EXPECT_EQ(std::vector<int64_t>(all.begin() + range.begin, all.begin() + range.end),
                batches.training(w, step).indices);
    }
  }
  const Outcome gradients = run("synchronous", 3),
                weights = run("local-sgd,every=1 steps", 3);  // gives the same for plain SGD
  EXPECT_LT(largest_difference(gradients.weights, weights.weights), 1e-12);
  expect_error(Blame::user, {"shares = \"labels\"", "shares=speed"}, [&] { run("synchronous,shares=speed", 3); });
}

TEST_F(ModelledRun, SynchronousSaysWhereItIsNot) {
  expect_error(Blame::user, {"synchronous", "share"}, [&] { run("synchronous,share=speed", 2); });
  experiment.replicas.devices = 2;
  expect_error(Blame::user, {"plan_devices = 2", "single devices"}, [&] { run("synchronous", 2); });
  experiment.replicas.devices = 1;
  experiment.replicas.clock.reset();
  expect_error(Blame::user, {"synchronous", "[update.virtual]", "use data"}, [&] { run("synchronous", 2); });
}

TEST_F(ModelledRun, AllWaitForAWorkerThatFails) {
  for (const char* strategy : {"synchronous", "local-sgd,every=1 steps"}) {
    clock().failures.clear();
    const Outcome whole = run(strategy, 3);
    clock().failures = {{.replica = 1, .at = 0.03, .back_after = 0.5}};  // the second step takes from 17 ms to 34 ms
    const Outcome failed = run(strategy, 3);
    EXPECT_EQ(largest_difference(whole.weights, failed.weights), 0) << strategy;
    EXPECT_NEAR(seconds(failed), seconds(whole) + 0.53 - 0.017, 1e-9) << strategy;
    EXPECT_NEAR(failed.row.replicas->idle_share * 3 * seconds(failed),
                whole.row.replicas->idle_share * 3 * seconds(whole) + 2 * 0.513, 0.01);
    clock().failures.front().back_after = INFINITY;
    const Outcome never = run(strategy, 3);
    EXPECT_EQ(never.row.status, RunStatus::failed);
    for (const char* words : {" 1", "30.0 ms", "never returns"})
      EXPECT_THAT(never.row.reason, HasSubstr(words)) << strategy;
  }
}

TEST_F(ModelledRun, OthersContinueWithoutALostReplica) {
  for (const int lost : {0, 2})
    for (const char* strategy : {"async-average", "partial", "easgd", "downpour", "shat", "fedavg,rounds=4"}) {
      clock().failures = {{.replica = lost, .at = 0.1}};
      const Outcome outcome = run(strategy, 3);
      EXPECT_EQ(outcome.row.status, RunStatus::ok) << strategy << ": " << outcome.row.reason;
      EXPECT_FALSE(outcome.weights.empty()) << strategy;
      ASSERT_TRUE(outcome.row.test) << strategy;
      const Outcome again = run(strategy, 3);
      EXPECT_EQ(largest_difference(outcome.weights, again.weights), 0) << strategy;
      if (strategy == std::string("fedavg,rounds=4")) continue;  // here the other clients complete the rounds
      EXPECT_LT(outcome.row.test->samples, kEpochs * 210) << strategy;
      EXPECT_GT(outcome.row.test->samples, kEpochs * 210 * 2 / 3) << strategy;
    }
}

TEST_F(ModelledRun, AReplicaFailsWithAnyOfItsWorkers) {
  experiment.replicas.devices = 2;
  experiment.replicas.plan = "data";
  clock().failures = {{.replica = 3, .at = 0.03, .back_after = 0.5}};
  const Outcome failed = run("local-sgd,every=1 steps", 4);
  EXPECT_NEAR(seconds(failed), computing(10, 5, 1) + 0.53 - 0.02, 1e-9);
  clock().failures.front().replica = 4;
  expect_error(Blame::user, {"update.virtual.failure", "worker = 4", "0 to 3"}, [&] { run("local-sgd", 4); });
}

/// Nodes with one device each, of kind `kinds[node]`. A device takes `launch` seconds per operator and, unless `rate`
/// is 0, has `rate` FLOP/s.
std::shared_ptr<const Cluster> cluster_of_nodes(const std::vector<int>& kinds, std::vector<double> launch,
                                                double rate = 0) {
  constexpr double kFree = 1e30;
  Cluster cluster;
  cluster.name = "by hand";
  for (const double seconds : launch)
    cluster.kinds.push_back({.name = "kind",
                             .speeds = {{"fp64", {.peak_flops = rate > 0 ? rate : kFree}}},
                             .memory_bandwidth = kFree,
                             .memory = 0,
                             .launch = seconds,
                             .source = ""});
  for (const int kind : kinds) {
    cluster.devices.push_back({.kind = kind, .node = int(cluster.nodes.size())});
    cluster.nodes.push_back({.link = {}, .price_per_hour = 0});
  }
  cluster.network = {.bandwidth = 1e6, .latency = 1e-3};
  return std::make_shared<const Cluster>(std::move(cluster));
}

TEST_F(ModelledRun, StepsOfAClusterAreTheSumOfItsOperators) {
  clock() = {};
  clock().cluster = cluster_of_nodes({0, 1, 0}, {1, 3});
  // Forward: three linear layers, two ReLUs, three operators of the loss. Backward: the same, plus the weights of three
  // linear layers, minus the gradient of the data. One update.
  const double operators = (3 + 2 + 3) + (2 + 2 + 3 + 3) + 1;
  const int64_t steps = kStepsPerEpoch * kEpochs;
  const Outcome slow = run("synchronous", 3);
  ASSERT_EQ(slow.row.status, RunStatus::ok) << slow.row.reason;
  const double exchange = double(*slow.row.bytes_per_step) / 1e6 + 4 * 1e-3;
  EXPECT_NEAR(seconds(slow), double(steps) * (3 * operators + exchange), 0.001 * double(steps))
      << "chunks of a third differ by an element";
  EXPECT_NEAR(slow.row.replicas->idle_share, 2.0 / 3 * 2 / 3, 0.01) << "two of three wait two thirds of the time";
  const Outcome free = run("async-average", 3);
  const auto quick = std::count_if(free.row.curve.begin(), free.row.curve.end(),
                                   [&](const CurvePoint& p) { return p.seconds < double(steps) * operators * 1.01; });
  EXPECT_GE(quick, steps * 2 / 3);
}

TEST_F(ModelledRun, StepsOfAClusterGrowWithTheirFlops) {
  experiment.model_options["hidden"] = 512;
  experiment.length = {2, Length::Unit::steps};
  clock() = {};
  clock().cluster = cluster_of_nodes({0, 0}, {0}, 1e6);
  clock().link = {};
  const double layer = 2 * 4 * 512, middle = 2 * 512 * 512;  // FLOPs per sample; the last layer equals the first
  const double step = 10 * (3 * (2 * layer + middle) - layer) / 1e6;
  const Outcome two = run("local-sgd,every=2 steps", 2);
  const double exchange = double(two.row.replicas->bytes) / 2 / 1e6 + 2 * 1e-3;
  EXPECT_NEAR(seconds(two), 2 * step + exchange, 0.01 * seconds(two));
}

TEST_F(ModelledRun, StepsOfAProfileAreTheSumOfItsLayers) {
  const Model model = build_model(experiment, data);
  const LayerSites sites(model, {.precision = Precision::fp64});
  Profile profile;
  profile.machine.cores = 2;
  int layers = 0;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id, ++layers) {
    const ShardingOption whole = model.node(id).layer->sharding_options(model.input_shapes(id), 1).front();
    for (const int64_t samples : {5, 10}) {
      LayerMeasurement& measured = profile.layers[sites.key(id, whole, 1)][samples];
      measured.forward = {.median = 0.01 * double(samples)};
      measured.backward = {.median = 0.02 * double(samples)};
      measured.backward_input = measured.backward.median;
    }
  }
  profile.updates = {{"sgd fp64", 1, 0.25, 0, 1}};
  clock() = {};
  clock().profile = std::make_shared<const Profile>(profile);
  const double step = layers * 0.3 + 0.25, short_step = layers * 0.15 + 0.25;  // for 10 and for 5 samples
  EXPECT_NEAR(seconds(run("local-sgd,every=1 steps", 2)), kEpochs * (10 * step + short_step), 1e-6);
  experiment.device_speeds = {1, 0.5};
  EXPECT_NEAR(seconds(run("synchronous", 2)), kEpochs * 2 * (10 * step + short_step), 1e-6);
  profile.layers.clear();
  clock() = {};
  clock().profile = std::make_shared<const Profile>(profile);
  expect_error(Blame::user, {"fc1", "trireme profile"}, [&] { run("local-sgd", 2); });
}

TEST_F(ModelledRun, ReplicasOfANodeShareItsConnection) {
  Cluster cluster = *cluster_of_nodes({0, 0, 0, 0}, {1});
  for (int d = 0; d < 4; ++d) cluster.devices[size_t(d)].node = d < 3 ? 0 : 1;
  cluster.nodes.resize(2);
  cluster.nodes.front().link = {.bandwidth = 9e6, .latency = 1e-6, .shared = true};
  clock() = {};
  clock().cluster = std::make_shared<const Cluster>(cluster);
  const auto bandwidths = [&](int replicas, int devices) {
    std::vector<double> list;
    for (const LinkSpeed& link : modelled_links(experiment, replicas, devices).replicas) list.push_back(link.bandwidth);
    return list;
  };
  EXPECT_EQ(bandwidths(4, 1), (std::vector<double>{1e6 / 3, 1e6 / 3, 1e6 / 3, 1e6}));
  EXPECT_EQ(bandwidths(2, 1), (std::vector<double>{4.5e6, 4.5e6})) << "within a node";
  EXPECT_EQ(bandwidths(2, 2), (std::vector<double>{5e5, 5e5}));
  EXPECT_EQ(modelled_links(experiment, 4, 1).server.bandwidth, 1e6);
  clock().server_link = {.bandwidth = 5, .latency = 0};
  EXPECT_EQ(modelled_links(experiment, 4, 1).server.bandwidth, 5);
  expect_error(Blame::user, {"by hand", "5 devices", "it has 4"}, [&] { run("local-sgd", 5); });
}

TEST_F(ModelledRun, KeysThatContradictEachOtherAreRefused) {
  const auto read = [](const std::string& keys) {
    const ConfigTable file = ConfigTable::from_string("[update.virtual]\n" + keys, "x.toml");
    read_replica_spec(file.table("update"));
  };
  expect_error(Blame::user, {"step_seconds", "cluster"}, [&] { read("cluster = \"c.toml\"\nstep_seconds = \"1 s\""); });
  expect_error(Blame::user, {"link", "cluster"},
               [&] { read("cluster = \"c.toml\"\nlink = { bandwidth = \"1 MB/s\" }"); });
  expect_error(Blame::user, {"sample_seconds", "profile"},
               [&] { read("profile = \"p.json\"\nsample_seconds = \"1 s\""); });
  expect_error(Blame::user, {"c.toml"}, [&] { read("cluster = \"c.toml\""); });
  expect_error(Blame::user, {"failure", "at"},
               [&] { read("step_seconds = \"1 s\"\n[[update.virtual.failure]]\nworker = 1"); });
}

}  // namespace
}  // namespace trireme::test_support
