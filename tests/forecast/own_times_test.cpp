// A user's own times of layers and stages: reading them, sharing a block's seconds, and predictions from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "../base/expect_error.h"
#include "base/text.h"
#include "forecast/cost_source.h"
#include "forecast/own_costs.h"
#include "forecast/predict.h"
#include "plan/cluster_file.h"
#include "plan/named.h"
#include "planner/exact/find_plan.h"
#include "trireme/layers/layer_norm.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme::test_support {
namespace {

constexpr int64_t kWidth = 64;

/// Blocks "h.0" to "h.3" of a norm, a linear layer and a ReLU; "loss".
Model blocks() {
  ModelBuilder b("blocks");
  NodeId x = b.input("data", {kWidth});
  const NodeId target = b.input("target", {});
  for (int i = 0; i < 4; ++i) {
    const std::string block = "h." + std::to_string(i);
    x = b.layer<LayerNorm>({x}, block + ".norm", kWidth);
    x = b.layer<Linear>({x}, block + ".fc", kWidth, kWidth, LinearOptions{});
    x = b.layer<Relu>({x}, block + ".relu");
  }
  return b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

/// Devices of one node, whose messages take no time.
Cluster devices_without_delay(int devices) {
  DeviceKind kind;
  kind.name = "toy";
  kind.speeds["fp32"] = {.peak_flops = 1e9, .greatest_efficiency = 1, .half_work = 0};
  kind.memory_bandwidth = 1e9;
  kind.launch = 1e-5;
  Cluster cluster = Cluster::uniform(devices);
  cluster.kinds = {kind};
  for (Device& device : cluster.devices) device.kind = 0;
  cluster.nodes = {ClusterNode{.link = {.bandwidth = 0, .latency = 0}}};
  return cluster;
}

class OwnTimesTest : public ::testing::Test {
 protected:
  OwnTimesTest() { experiment_.batch = 32; }
  ~OwnTimesTest() override { std::filesystem::remove(file_); }

  OwnTimes times(const std::string& text) {
    std::ofstream(file_) << text;
    return read_own_times(file_);
  }

  CostSource source(int devices) {
    return described_source(experiment_, model_, devices_without_delay(devices), device_numbers(0, devices));
  }

  OwnCosts costs(const std::string& text, const Plan* plan = nullptr) {
    return {model_, source(1).layers, times(text), plan};
  }

  LayerCost cost(const OwnCosts& costs, const std::string& layer, int64_t samples, int tensor = 1) {
    const NodeId id = model_.find(layer);
    const auto options = model_.node(id).layer->sharding_options(model_.input_shapes(id), tensor);
    return costs.seconds(id, options.back(), tensor, samples);
  }

  /// Seconds of a step under the plan, with the times in `text`.
  RunResult step(const Plan& plan, const std::string& text) {
    CostSource own = source(plan.devices);
    own.layers = std::make_shared<OwnCosts>(model_, own.layers, times(text), &plan);
    return predict(experiment_, model_, plan, own);
  }
  double seconds(const Plan& plan, const std::string& text) { return step(plan, text).step_seconds->median; }

  Plan plan(const std::string& name, int devices) {
    return named_plan(name, model_, source(devices).cluster, experiment_.batch, {}, 0);
  }

  const std::filesystem::path file_ =
      std::filesystem::temp_directory_path() / ("own_times_" + std::to_string(::getpid()) + ".csv");
  const Model model_ = blocks();
  RunSpec experiment_;
};

TEST_F(OwnTimesTest, AreReadWithUnitsAndComments) {
  const OwnTimes read = times(
      "# of our cluster\nlayer, samples, forward, backward_input, backward_weight, tensor\n"
      "h.0, 4, 1.5 ms, 0.002, 1 ms, 2\nh.1.fc,8,0,0,0,1\n");
  ASSERT_EQ(read.rows.size(), 2u);
  EXPECT_FALSE(read.of_stages);
  const OwnTime& row = read.rows[0];
  EXPECT_EQ(row.layers, "h.0");
  EXPECT_EQ(row.samples, 4);
  EXPECT_EQ(row.tensor, 2);
  EXPECT_DOUBLE_EQ(row.forward, 0.0015);
  EXPECT_DOUBLE_EQ(row.backward, 0.003);
  EXPECT_DOUBLE_EQ(*row.backward_weight, 0.001);
  EXPECT_THAT(row.where, ::testing::HasSubstr(".csv:3:1"));
  const OwnTimes stages = times("stage,samples,forward,backward\n1,2,0.5,1\n");
  EXPECT_TRUE(stages.of_stages);
  EXPECT_EQ(stages.rows[0].stage, 1);
  EXPECT_FALSE(stages.rows[0].backward_weight);
}

TEST_F(OwnTimesTest, ErrorsNameTheLine) {
  const std::string header = "layer,samples,forward,backward\n";
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases{
      {header + "h.0,1,1,1\nh.1,0,1,1\n", {".csv:3:5", "samples \"0\"", "from 1 on"}},
      {header + "h.0,1,soon,1\n", {".csv:2:7", "soon"}},
      {header + "h.0,1,-1,1\n", {".csv:2:7", "at least 0"}},
      {header + ",1,1,1\n", {".csv:2:1", "name of a layer"}},
      {header + "h.0,1,1,1\nh.1,1,1,1\nh.0,1,2,2\n", {".csv:4:1", "h.0", ".csv:2:1", "give it once"}},
      {"layer,samples,forward\nh.0,1,1\n", {".csv:1", "the backward"}},
      {"layer,samples,forward,backward,backward_input\nh.0,1,1,1,1\n", {".csv:1", "the backward"}},
      {"layer,forward,backward\nh.0,1,1\n", {".csv:1", "\"samples\"", "missing"}},
      {"layer,stage,samples,forward,backward\nh.0,1,1,1,1\n", {".csv:1", "one of them"}},
      {"layer,samples,forward,backward,colour\nh.0,1,1,1,red\n", {".csv:1", "\"colour\"", "layer (or stage)"}},
      {"stage,samples,forward,backward\nlast,1,1,1\n", {".csv:2:1", "stage \"last\""}},
  };
  for (const auto& [text, parts] : cases) expect_error(Blame::user, parts, [&, &text = text] { times(text); });
}

TEST_F(OwnTimesTest, MustBeOfLayersAndStagesThatExist) {
  const std::string header = "layer,samples,forward,backward\n";
  expect_error(Blame::user, {".csv:2:1", "\"h.4\"", "model blocks has no layer or block", "did you mean \"h."},
               [&] { costs(header + "h.4,1,1,1\n"); });
  expect_error(Blame::user, {".csv:3:1", "layer h.0.fc has its time from", ".csv:2:1"},
               [&] { costs(header + "h.0,1,1,1\nh.0.fc,1,1,1\n"); });
  expect_error(Blame::user, {".csv:3:1", "h.2.norm has its time from"},
               [&] { costs(header + "h.*,1,1,1\nh.2,1,1,1\n"); });
  const Plan two = plan("1f1b", 2);
  expect_error(Blame::user, {".csv:2:1", "stage 2", "the plan has 2 stages, numbered from 0"},
               [&] { costs("stage,samples,forward,backward\n2,1,1,1\n", &two); });
}

TEST_F(OwnTimesTest, OfABlockAreSharedByItsLayers) {
  const OwnCosts own = costs("layer,samples,forward,backward_input,backward_weight\nh.1,4,3,5,7\nloss,4,0,0,0\n");
  const CostSource predicted = source(1);
  double forward = 0, backward = 0, input = 0, weight = 0;
  for (const char* layer : {"h.1.norm", "h.1.fc", "h.1.relu"}) {
    const LayerCost c = cost(own, layer, 4);
    EXPECT_GT(c.forward, 0) << layer;
    EXPECT_EQ(int(c.basis), int(Basis::own_times));
    EXPECT_EQ(c.stretch, 1);
    EXPECT_EQ(c.forward_launches.host, 0);
    forward += c.forward;
    backward += c.backward;
    input += c.backward_input;
    weight += c.backward_weight;
  }
  EXPECT_NEAR(forward, 3, 1e-12);
  EXPECT_NEAR(backward, 12, 1e-12);
  EXPECT_NEAR(input, 5, 1e-12);
  EXPECT_NEAR(weight, 7, 1e-12);
  EXPECT_GT(cost(own, "h.1.fc", 4).forward, cost(own, "h.1.relu", 4).forward) << "as in the prediction";
  EXPECT_EQ(cost(own, "loss", 4).forward, 0);
  const LayerCost other = cost(own, "h.0.fc", 4);
  const NodeId id = model_.find("h.0.fc");
  EXPECT_EQ(other.forward,
            predicted.layers->seconds(id, model_.node(id).layer->sharding_options(model_.input_shapes(id), 1)[0], 1, 4)
                .forward);
  EXPECT_EQ(int(other.basis), int(Basis::datasheet));
}

TEST_F(OwnTimesTest, OfOtherSamplesFollowThePrediction) {
  const OwnCosts one = costs("layer,samples,forward,backward\nh.0.fc,4,3,6\n");
  const CostSource predicted = source(1);
  const NodeId id = model_.find("h.0.fc");
  const auto forecast = [&](int64_t samples) {
    return predicted.layers
        ->seconds(id, model_.node(id).layer->sharding_options(model_.input_shapes(id), 1)[0], 1, samples)
        .forward;
  };
  EXPECT_NEAR(cost(one, "h.0.fc", 16).forward, 3 * forecast(16) / forecast(4), 1e-12);
  EXPECT_EQ(cost(one, "h.0.fc", 16).stretch, 4);
  EXPECT_EQ(cost(one, "h.0.fc", 1).stretch, 4);
  const OwnCosts two = costs("layer,samples,forward,backward\nh.0.fc,4,3,6\nh.0.fc,8,9,9\n");
  EXPECT_NEAR(cost(two, "h.0.fc", 4).forward, 3, 1e-12);
  EXPECT_NEAR(cost(two, "h.0.fc", 8).forward, 9, 1e-12);
  const double between = (3 / forecast(4) + 9 / forecast(8)) / 2 * forecast(6);
  EXPECT_NEAR(cost(two, "h.0.fc", 6).forward, between, 1e-9);
  EXPECT_EQ(cost(two, "h.0.fc", 6).stretch, 1);
}

TEST_F(OwnTimesTest, AreOfATensorDegree) {
  const OwnCosts own = costs("layer,samples,tensor,forward,backward\nh.0.fc,4,1,3,6\nh.0.fc,4,4,1,2\n");
  EXPECT_NEAR(cost(own, "h.0.fc", 4, 1).forward, 3, 1e-12);
  EXPECT_NEAR(cost(own, "h.0.fc", 4, 4).forward, 1, 1e-12);
}

TEST_F(OwnTimesTest, EqualBlocksOfOneRowHaveEqualCosts) {
  const OwnCosts own = costs("layer,samples,forward,backward\nh.*,4,3,6\n");
  EXPECT_EQ(own.cost_class(model_.find("h.1.fc")), own.cost_class(model_.find("h.3.fc")));
  EXPECT_EQ(cost(own, "h.1.fc", 4).forward, cost(own, "h.3.fc", 4).forward);
  EXPECT_NE(own.cost_class(model_.find("h.1.fc")), own.cost_class(model_.find("loss")));
  const OwnCosts apart = costs("layer,samples,forward,backward\nh.1,4,3,6\nh.3,4,4,6\n");
  EXPECT_NE(apart.cost_class(model_.find("h.1.fc")), apart.cost_class(model_.find("h.3.fc")));
}

TEST_F(OwnTimesTest, AddUpToTheStepOfOneDevice) {
  const Plan single = plan("single", 1);
  const std::string none = "layer,samples,forward,backward\nh.*,32,0,0\nloss,32,0,0\n";
  const std::string some = "layer,samples,forward,backward\nh.*,32,0.25,0.5\nloss,32,1,2\n";
  const double update = seconds(single, none);
  EXPECT_GT(update, 0);
  EXPECT_NEAR(seconds(single, some) - update, 4 * 0.75 + 3, 1e-9);
  EXPECT_EQ(step(single, some).predicted->basis, "own times");
  EXPECT_EQ(step(single, "layer,samples,forward,backward\nh.*,32,1,2\n").predicted->basis, "datasheet, own times");
  EXPECT_EQ(step(single, "layer,samples,forward,backward\nh.*,8,1,2\nloss,32,1,1\n").predicted->basis,
            "own times 4.0 x");
}

/// The step of a pipeline of equal stages whose messages take no time: (m + p - 1) (F + B).
TEST_F(OwnTimesTest, OfStagesGiveThePipelinesFormula) {
  for (const int m : {4, 8, 12}) {
    experiment_.batch = 2 * m;
    const Plan pipeline = plan("1f1b,micro_batches=" + std::to_string(m), 4);
    ASSERT_EQ(pipeline.stages.size(), 4u);
    std::string none = "stage,samples,forward,backward\n", some = none;
    for (int s = 0; s < 4; ++s) {
      none += std::to_string(s) + ",2,0,0\n";
      some += std::to_string(s) + ",2,1,2\n";
    }
    EXPECT_NEAR(seconds(pipeline, some) - seconds(pipeline, none), (m + 4 - 1) * 3.0, 1e-3) << m;
  }
}

/// Stages balanced by own times: of three blocks that take 1 s and one that takes 3 s, the slow one is alone.
TEST_F(OwnTimesTest, BalanceStagesAndPlans) {
  CostSource own = source(2);
  own.layers = std::make_shared<OwnCosts>(
      model_, own.layers,
      times("layer,samples,forward,backward\nh.0,8,1,2\nh.1,8,1,2\nh.2,8,1,2\nh.3,8,3,6\nloss,8,0,0\n"), nullptr);
  const Plan pipeline = make_plan("1f1b,micro_batches=4", experiment_, model_, own);
  EXPECT_EQ(pipeline.layers[size_t(model_.find("h.2.relu"))].stage, 0);
  EXPECT_EQ(pipeline.layers[size_t(model_.find("h.3.norm"))].stage, 1);
  // the planner tells equal layers with unequal times apart, so that no formula is below the work: 32 samples on 2
  // devices take at least (3 + 3 + 3 + 9) / 8 s per sample
  PlanRequest request{.model = model_, .cluster = own.cluster, .costs = *own.layers};
  request.batch = experiment_.batch;
  request.space.micro_batches = {4};
  const PlanAnswer answer = find_plan(request);
  ASSERT_TRUE(answer.best);
  EXPECT_GE(answer.best->prediction.seconds, 4 * 18.0 / 2);
}

}  // namespace
}  // namespace trireme::test_support
