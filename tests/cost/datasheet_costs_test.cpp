#include "cost/datasheet_costs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/expect_error.h"
#include "cost/call_shapes.h"
#include "plan/cluster_file.h"
#include "trireme/layers/add.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/embedding.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/lstm.h"
#include "trireme/layers/relu.h"
#include "trireme/layers/softmax_cross_entropy.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

/// Round numbers, so that expectations can be worked out by hand: 1 TFLOP/s of which at best half is reached, 100 GB/s.
DeviceKind device_of(const std::string& name, double peak) {
  return {.name = name,
          .speeds = {{"fp32", {.peak_flops = peak, .greatest_efficiency = 0.5, .half_work = 1e6}}},
          .memory_bandwidth = 100e9,
          .memory = int64_t{1} << 30,
          .launch = 10e-6,
          .source = "made up"};
}

Cluster cluster_of(std::vector<DeviceKind> kinds) {
  Cluster cluster;
  cluster.name = "made up";
  for (size_t k = 0; k < kinds.size(); ++k) cluster.devices.push_back({.kind = int(k)});
  cluster.kinds = std::move(kinds);
  return cluster;
}

/// data [64] -> linear 64 to 256 -> relu -> linear 256 to 10 -> loss.
Model two_layers() {
  ModelBuilder builder("two layers");
  const NodeId data = builder.input("data", {64}), target = builder.input("target", {});
  NodeId x = builder.layer<Linear>({data}, "first", 64, 256);
  x = builder.layer<Relu>({x}, "relu");
  x = builder.layer<Linear>({x}, "second", 256, 10);
  const NodeId loss = builder.layer<SoftmaxCrossEntropy>({x, target}, "loss");
  return builder.finish(x, loss);
}

const ShardingOption& option_of(const Model& model, NodeId node, int degree, const std::string& name,
                                std::vector<ShardingOption>& all) {
  all = model.node(node).layer->sharding_options(model.input_shapes(node), degree);
  for (const ShardingOption& option : all)
    if (option.name == name) return option;
  throw std::logic_error("no option " + name);
}

LayerCost cost_of(const LayerCosts& costs, const Model& model, const std::string& layer, int64_t samples,
                  int degree = 1, const std::string& option = "replicate", int kind = -1) {
  std::vector<ShardingOption> all;
  const NodeId node = model.find(layer);
  return costs.seconds(node, option_of(model, node, degree, option, all), degree, samples, kind);
}

TEST(DatasheetCosts, FollowsTheCurveByHand) {
  const Model model = two_layers();
  const DatasheetCosts costs(model, cluster_of({device_of("A", 1e12)}), Precision::fp32, 0);
  // 1000 samples: 2 * 64 * 256 * 1000 = 32.768 MFLOP at 0.5 * 32.768 / 33.768 of 1 TFLOP/s; reading and writing memory
  // takes less time.
  const double first = 10e-6 + 32.768e6 / (1e12 * 0.5 * 32.768 / 33.768);
  const LayerCost cost = cost_of(costs, model, "first", 1000);
  EXPECT_NEAR(cost.forward, first, 1e-12);
  EXPECT_EQ(cost.basis, Basis::datasheet);
  EXPECT_DOUBLE_EQ(cost.crowding, 1);
  // The data needs no gradient: backward computes only the gradient of the weights.
  EXPECT_NEAR(cost.backward, first, 1e-12);
  EXPECT_DOUBLE_EQ(cost.backward_input, 0);
  EXPECT_NEAR(cost.backward_weight, first, 1e-12);
  const double second = 10e-6 + (2 * 256 * 10 * 1000 + 1e6) / (1e12 * 0.5);
  const LayerCost last = cost_of(costs, model, "second", 1000);
  EXPECT_NEAR(last.forward, second, 1e-12);
  EXPECT_NEAR(last.backward, 2 * second, 1e-12);
  EXPECT_NEAR(last.backward_input, second, 1e-12);
  EXPECT_NEAR(last.backward_weight, second, 1e-12);
  // The ReLU reads and writes 256 values of 4 bytes each at 100 GB/s; it has no parameters.
  const double relu = 10e-6 + 2 * 256 * 4 * 1000 / 100e9;
  EXPECT_NEAR(cost_of(costs, model, "relu", 1000).forward, relu, 1e-12);
  EXPECT_NEAR(cost_of(costs, model, "relu", 1000).backward, relu, 1e-12);
  EXPECT_NEAR(cost_of(costs, model, "relu", 1000).backward_input, relu, 1e-12);
  EXPECT_DOUBLE_EQ(cost_of(costs, model, "relu", 0).forward, 0);
}

/// The host asks for operators ahead of the device: only short operators wait for it. Every operator also takes the
/// device's own start, and memory is never as fast as the datasheet says.
TEST(DatasheetCosts, LaunchesBesideTheDevice) {
  const Model model = two_layers();
  DeviceKind device = device_of("A", 1e12);
  device.start = 2e-6;
  device.memory_efficiency = 0.8;
  const DatasheetCosts costs(model, cluster_of({device}), Precision::fp32, 0);
  EXPECT_NEAR(cost_of(costs, model, "first", 1000).forward, 2e-6 + 33.768e6 / 0.5e12, 1e-12);
  EXPECT_NEAR(cost_of(costs, model, "relu", 1000).forward, 2e-6 + 2 * 256 * 4 * 1000 / 80e9, 1e-12);
  EXPECT_NEAR(cost_of(costs, model, "relu", 1).forward, 10e-6, 1e-12) << "shorter than its launch";
  EXPECT_NEAR(costs.update_seconds(1000000, 1), 2e-6 + 1e6 * 12 / 80e9, 1e-12);
}

/// data [8 positions, 64] -> linear to 3 x 64 -> attention of 4 heads -> loss.
Model attends(double dropout) {
  ModelBuilder builder("attends");
  const NodeId data = builder.input("data", {8, 64}), target = builder.input("target", {8});
  NodeId x = builder.layer<Linear>({data}, "qkv", 64, 64, LinearOptions{.parts = 3});
  x = builder.layer<Attention>({x}, "attention",
                               AttentionOptions{.heads = 4, .causal = true, .dropout = dropout, .fused = true});
  return builder.finish(x, builder.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
}

/// Fused attention stores no scores. It computes half of them under a causal mask, and five products in backward.
TEST(DatasheetCosts, FusedAttentionHasAnEfficiencyOfItsOwn) {
  const Model model = attends(0.1);
  DeviceKind device = device_of("A", 1e12);
  device.fused_attention = 0.25;
  const DatasheetCosts fused(model, cluster_of({device}), Precision::fp32, 0);
  const double flops = 1000 * 4.0 * 8 * 8 * 64 / 2;  // 1000 samples; two products, of which half is computed
  const double bytes = 1000 * 8 * 64 * 4 * 4.0;      // queries, keys, values and the result
  const LayerCost cost = cost_of(fused, model, "attention", 1000);
  EXPECT_NEAR(cost.forward, 10e-6 + std::max(flops / 0.25e12, bytes / 100e9), 1e-12);
  EXPECT_NEAR(cost.backward, 10e-6 + std::max(2.5 * flops / 0.25e12, 2 * bytes / 100e9), 1e-12);
  std::vector<ShardingOption> all;
  const NodeId node = model.find("attention");
  const LayerMemory memory = fused.memory(node, option_of(model, node, 1, "replicate", all), 1, 1000);
  EXPECT_EQ(memory.saved, 1000 * 4 * 8 * 4) << "one number per row of scores";
  EXPECT_TRUE(memory.keeps_input.at(0));
  EXPECT_TRUE(memory.keeps_output);
  const DatasheetCosts plain(model, cluster_of({device_of("A", 1e12)}), Precision::fp32, 0);
  EXPECT_GT(plain.memory(node, option_of(model, node, 1, "replicate", all), 1, 1000).saved, 1000 * 4 * 8 * 8 * 4);
}

TEST(DatasheetCosts, SmallMicroBatchesPayTheLaunch) {
  const Model model = two_layers();
  const DatasheetCosts costs(model, cluster_of({device_of("A", 1e12)}), Precision::fp32, 0);
  const double whole = cost_of(costs, model, "first", 4096).forward, part = cost_of(costs, model, "first", 32).forward;
  EXPECT_GT(128 * part, 5 * whole);
  EXPECT_LT(part, whole);
}

TEST(DatasheetCosts, DividesWorkByTheTensorDegree) {
  const Model model = two_layers();
  const DatasheetCosts costs(model, cluster_of({device_of("A", 1e12)}), Precision::fp32, 0);
  const double columns = cost_of(costs, model, "first", 1000, 4, "columns").forward;
  EXPECT_NEAR(columns, 10e-6 + (32.768e6 / 4 + 1e6) / 0.5e12, 1e-12);
  const double whole = cost_of(costs, model, "first", 1000, 4, "replicate").forward;
  EXPECT_NEAR(whole, 10e-6 + (32.768e6 + 1e6) / 0.5e12, 1e-12);
  // A quarter of the ReLU's bytes.
  EXPECT_NEAR(cost_of(costs, model, "relu", 1000, 4, "channels").forward, 10e-6 + 2 * 64 * 4 * 1000 / 100e9, 1e-12);
}

TEST(DatasheetCosts, TellsKindsApart) {
  const Model model = two_layers();
  const DatasheetCosts costs(model, cluster_of({device_of("A", 1e12), device_of("B", 4e12)}), Precision::fp32, 0);
  const double slow = cost_of(costs, model, "first", 100000, 1, "replicate", 0).forward;
  const double fast = cost_of(costs, model, "first", 100000, 1, "replicate", 1).forward;
  EXPECT_NEAR((slow - 10e-6) / (fast - 10e-6), 4, 1e-9);
}

TEST(DatasheetCosts, UpdatesAtTheSpeedOfMemory) {
  const Model model = two_layers();
  const Cluster cluster = cluster_of({device_of("A", 1e12)});
  // Adam reads the gradient, and reads and writes the weight and two states.
  EXPECT_NEAR(DatasheetCosts(model, cluster, Precision::fp32, 2).update_seconds(1000000, 1), 10e-6 + 28e6 / 100e9,
              1e-12);
  EXPECT_NEAR(DatasheetCosts(model, cluster, Precision::fp32, 0).update_seconds(1000000, 4), 10e-6 + 24e6 / 100e9,
              1e-12);
}

TEST(DatasheetCosts, RefusesDevicesThatItKnowsNothingOf) {
  const Model model = two_layers();
  const Cluster cluster = cluster_of({device_of("A", 1e12)});
  expect_error(Blame::user, {"made up", "device A has no speed at bf16", "fp32", "device.A.flops.bf16"},
               [&] { DatasheetCosts(model, cluster, Precision::bf16, 0); });
  expect_error(Blame::user, {"not described"}, [&] { DatasheetCosts(model, Cluster::uniform(2), Precision::fp32, 0); });
}

TEST(DatasheetCosts, MemoryIsThatOfTheShard) {
  const Model model = two_layers();
  const DatasheetCosts costs(model, cluster_of({device_of("A", 1e12)}), Precision::fp32, 0);
  std::vector<ShardingOption> all;
  const NodeId node = model.find("second");
  const LayerMemory whole = costs.memory(node, option_of(model, node, 1, "replicate", all), 1, 100);
  EXPECT_EQ(whole.output, 100 * 10 * 4);
  EXPECT_EQ(whole.saved, 0);
  EXPECT_EQ(whole.keeps_input, std::vector<bool>{true});
  EXPECT_EQ(whole.input_gradients, std::vector<int64_t>{100 * 256 * 4});
  const LayerMemory rows = costs.memory(node, option_of(model, node, 2, "rows", all), 2, 100);
  EXPECT_EQ(rows.output, 100 * 10 * 4);
  EXPECT_EQ(rows.input_gradients, std::vector<int64_t>{100 * 128 * 4});
  const NodeId first = model.find("first");
  EXPECT_EQ(costs.memory(first, option_of(model, first, 1, "replicate", all), 1, 100).input_gradients,
            std::vector<int64_t>{0});
}

/// Samples per second of training on one device; the time between layers is not counted.
double throughput(const Model& model, const Cluster& cluster, Precision precision, int64_t samples) {
  const DatasheetCosts costs(model, cluster, precision, 1);
  double seconds = costs.update_seconds(model.parameter_count(), 1);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const auto options = model.node(id).layer->sharding_options(model.input_shapes(id), 1);
    const LayerCost cost = costs.seconds(id, options[0], 1, samples);
    seconds += cost.forward + cost.backward;
  }
  return double(samples) / seconds;
}

/// NVIDIA and others publish about 360 to 400 images/s of ResNet-50 on a V100 in fp32. An approximation from a
/// datasheet must come near these, not meet them.
TEST(DatasheetCosts, AreInTheRegionOfPublishedSpeeds) {
  const Model resnet = make_model({"resnet50", {3, 224, 224}, 1000, {}});
  const double images =
      throughput(resnet, read_cluster(TRIREME_CLUSTERS "/dgx1-v100.cluster.toml"), Precision::fp32, 64);
  EXPECT_GT(images, 380 / 1.4);
  EXPECT_LT(images, 380 * 1.4);
  RecordProperty("resnet50_v100_images_per_second", int(images));
}

/// The work of one layer alone under the sharding option `name`.
std::vector<OperatorWork> works_of(const Layer& layer, std::vector<Shape> inputs, int64_t samples, Pass pass,
                                   int degree = 1, const std::string& name = "replicate") {
  const size_t count = inputs.size();
  const std::vector<ShardingOption> options = layer.sharding_options(inputs, degree);
  const auto option =
      std::find_if(options.begin(), options.end(), [&](const ShardingOption& o) { return o.name == name; });
  const double flops = layer.forward_flops(inputs) * double(samples) / (option->divides_work ? degree : 1);
  std::vector<int64_t> elements;
  for (size_t i = 0; i < count; ++i) elements.push_back(layer.integers_below(inputs, i) ? 8 : 4);
  const CallInputs all{std::move(inputs), elements, std::vector<bool>(count, true)};
  return layer.work(call_shapes(layer, all, *option, degree, samples, Precision::fp32), flops, pass);
}

OperatorWork work_of(const Layer& layer, std::vector<Shape> inputs, int64_t samples) {
  const std::vector<OperatorWork> works = works_of(layer, std::move(inputs), samples, Pass::forward);
  EXPECT_EQ(works.size(), 1u);
  return works.front();
}

TEST(Operators, KnowWhatIsNotOneOperator) {
  EXPECT_EQ(work_of(Lstm("lstm", 16, 32), {{10, 16}}, 4).operators, 21);
  EXPECT_EQ(work_of(Flatten("flatten"), {{4, 5, 5}}, 4).operators, 0);
  EXPECT_TRUE(work_of(Conv2d("conv", {.in = 8, .out = 8, .kernel = 3}), {{8, 9, 9}}, 4).multiplies);
  EXPECT_FALSE(work_of(Add("add"), {{8}, {8}}, 4).multiplies);
}

TEST(Operators, CountBytes) {
  // 4 sentences of 10 tokens, rows of 32 floats. The call reads the tokens and their rows, and writes the output; it
  // does not read the whole table of 100000 rows.
  const OperatorWork embedding = work_of(Embedding("embedding", 100000, 32), {{10}}, 4);
  EXPECT_DOUBLE_EQ(embedding.bytes, 40 * 8 + 2 * 40 * 32 * 4);
  const OperatorWork add = work_of(Add("add"), {{8}, {8}}, 4);
  EXPECT_DOUBLE_EQ(add.bytes, 3 * 4 * 8 * 4);
  // An LSTM reads its hidden weights in each of 10 steps.
  const OperatorWork lstm = work_of(Lstm("lstm", 16, 32), {{10, 16}}, 4);
  EXPECT_DOUBLE_EQ(lstm.bytes, 4 * (4 * 10 * 16 + 4 * 10 * 32 + 4 * 32 * 16 + 10 * 4 * 32 * 32 + 2 * 4 * 32));
}

/// Computed by hand for 4 samples, 8 queries, 6 keys, 16 features, 2 heads, in floats: 4 * 2 * 8 * 6 = 384 attention
/// weights.
TEST(Operators, OfAttentionWriteTheScoresAndReadThemAgain) {
  const Attention attention("attention", {.heads = 2, .dropout = 0.1});
  const std::vector<Shape> inputs{{8, 16}, {6, 16}, {6, 16}};
  const double product = 4 * (4 * 8 * 16 + 4 * 6 * 16 + 384), softmax = 4 * 2 * 384, dropout = softmax + 384;
  const std::vector<OperatorWork> forward = works_of(attention, inputs, 4, Pass::forward);
  ASSERT_EQ(forward.size(), 4u);
  const double expected[] = {product, softmax, dropout, product};
  double flops = 0;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(forward[i].bytes, expected[i]) << i;
    EXPECT_EQ(forward[i].multiplies, i == 0 || i == 3) << i;
    flops += forward[i].flops;
  }
  EXPECT_DOUBLE_EQ(flops, 4 * 4.0 * 8 * 6 * 16);
  const std::vector<OperatorWork> backward = works_of(attention, inputs, 4, Pass::input_gradients);
  ASSERT_EQ(backward.size(), 6u);
  const double gradients[] = {product, product, dropout, 4 * 3 * 384, product, product};
  flops = 0;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_DOUBLE_EQ(backward[i].bytes, gradients[i]) << i;
    flops += backward[i].flops;
  }
  EXPECT_DOUBLE_EQ(flops, 2 * 4 * 4.0 * 8 * 6 * 16);  // each product has two gradients
  EXPECT_TRUE(works_of(attention, inputs, 4, Pass::weight_gradients).empty());
}

TEST(Operators, OfAttentionAreDividedByHeads) {
  const Attention fused("attention", {.heads = 4, .fused = true});
  const std::vector<OperatorWork> whole = works_of(fused, {{8, 3, 16}}, 5, Pass::forward);
  const std::vector<OperatorWork> half = works_of(fused, {{8, 3, 16}}, 5, Pass::forward, 2, "heads");
  ASSERT_EQ(whole.size(), 3u);  // there is no dropout
  ASSERT_EQ(half.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(half[i].bytes, whole[i].bytes / 2) << i;
    EXPECT_DOUBLE_EQ(half[i].flops, whole[i].flops / 2) << i;
  }
}

TEST(Operators, TakeTheLongerOfComputingAndMemory) {
  const DeviceKind device = device_of("A", 1e12);
  const DeviceSpeed& speed = device.speeds.at("fp32");
  EXPECT_DOUBLE_EQ(seconds_of({.operators = 1, .flops = 1e9, .bytes = 1, .multiplies = true}, device, speed),
                   10e-6 + 1.001e9 / 0.5e12);
  EXPECT_DOUBLE_EQ(seconds_of({.operators = 1, .flops = 1e9, .bytes = 1e9, .multiplies = true}, device, speed),
                   10e-6 + 10e-3);
  EXPECT_DOUBLE_EQ(seconds_of({.operators = 4, .flops = 4e9, .bytes = 1, .multiplies = true}, device, speed),
                   4 * (10e-6 + 1.001e9 / 0.5e12));
  EXPECT_DOUBLE_EQ(seconds_of({.operators = 1, .flops = 1e9, .bytes = 1, .multiplies = false}, device, speed),
                   10e-6 + 1e9 / 1e12);
  EXPECT_DOUBLE_EQ(seconds_of({.operators = 0, .flops = 1e9, .bytes = 1e9, .multiplies = true}, device, speed), 0);
}

}  // namespace
}  // namespace trireme
