// What an update policy computes itself takes time in a prediction: its operators' bytes over the device's bandwidth.
#include <gtest/gtest.h>

#include "forecast/agreement_plan.h"
#include "forecast/cost_source.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kWidth = 512;
constexpr double kBandwidth = 1e9;                  // bytes/s
constexpr double kWeights = 4.0 * kWidth * kWidth;  // bytes

Model one_layer() {
  ModelBuilder b("one layer");
  const NodeId x = b.input("data", {kWidth}), target = b.input("target", {});
  const NodeId logits = b.layer<Linear>({x}, "fc", kWidth, kWidth, LinearOptions{.bias = false});
  return b.finish(logits, b.layer<SoftmaxCrossEntropy>({logits, target}, "loss"));
}

/// Devices of one node, whose messages take no time.
Cluster two_devices() {
  DeviceKind kind;
  kind.name = "toy";
  kind.speeds["fp32"] = {.peak_flops = 1e12, .greatest_efficiency = 1, .half_work = 0};
  kind.memory_bandwidth = kBandwidth;
  Cluster cluster = Cluster::uniform(2);
  cluster.kinds = {kind};
  for (Device& device : cluster.devices) device.kind = 0;
  cluster.nodes = {ClusterNode{.link = {.bandwidth = 0, .latency = 0}}};
  return cluster;
}

class PolicySeconds : public ::testing::Test {
 protected:
  PolicySeconds() {
    experiment_.batch = 32;
    experiment_.length = {64, Length::Unit::steps};
    experiment_.optimizer.momentum = 0.9;
  }

  double step(const std::string& strategy) const {
    const Plan plan = plan_with_agreement(strategy, experiment_, model_, 2);
    const CostSource source = described_source(experiment_, model_, cluster_, device_numbers(0, 2));
    return predict(experiment_, model_, plan, source).step_seconds->median;
  }
  /// How often a step reads or writes all weights, beyond what training alone does.
  double passes(const std::string& strategy) const {
    return (step(strategy) - step("local-sgd,every=1000 steps")) * kBandwidth / kWeights;
  }

  const Model model_ = one_layer();
  Cluster cluster_ = two_devices();
  RunSpec experiment_;
};

// A sum is a matter of the links, which take no time here. Its division by the number of replicas reads and writes.
TEST_F(PolicySeconds, OfAnAverageAreThoseOfItsDivision) {
  EXPECT_NEAR(passes("local-sgd,every=1 steps"), 2, 0.01);
  EXPECT_NEAR(passes("local-sgd,every=4 steps"), 0.5, 0.01);
  EXPECT_NEAR(passes("local-sgd,every=1 steps,moments=averaged"), 4, 0.01);
}

// Relative speeds compare devices of a file; what a device of a kind takes does not depend on the others.
TEST_F(PolicySeconds, DoNotDependOnRelativeSpeeds) {
  for (Device& device : cluster_.devices) device.speed = 0.1;
  EXPECT_NEAR(passes("local-sgd,every=1 steps"), 2, 0.01);
}

// The distance is read from two and written; scaled in place; added to the centre; subtracted from the replica.
TEST_F(PolicySeconds, OfElasticAveragesAreThoseOfServerAndReplica) {
  EXPECT_NEAR(passes("easgd,period=1"), 3 + 2 + 3 + 3, 0.01);
}

}  // namespace
}  // namespace trireme::test_support
