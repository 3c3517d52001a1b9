// Compares the measured bytes of one call with the bytes that the layer's formulas give.
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include "base/memory.h"
#include "profile/measure_layers.h"
#include "runtime/worker_threads.h"
#include "trireme/layers/attention.h"
#include "trireme/layers/conv2d.h"
#include "trireme/layers/flatten.h"
#include "trireme/layers/linear.h"
#include "trireme/layers/relu.h"

namespace trireme {
namespace {

constexpr int64_t kFloat = 4, kSamples = 6;

/// A layer inside a network, so that all gradients are needed.
LayerSite site_of(const Layer& layer, std::vector<Shape> inputs) {
  LayerSite site;
  site.layer = &layer;
  site.output_shape = layer.output_shape(inputs);
  site.inputs.assign(inputs.size(), ValueKind{});
  site.wants_inputs.assign(inputs.size(), true);
  site.wants_parameters.assign(layer.parameters().size(), true);
  site.differentiated = true;
  site.input_shapes = std::move(inputs);
  return site;
}

LayerMemory memory_of(const LayerSite& site, const std::string& option = "replicate", int tensor = 1) {
  install_memory_accounting();
  LayerMemory memory;
  for (const ShardingOption& o : site.layer->sharding_options(site.input_shapes, tensor)) {
    if (o.name != option) continue;
    LocalWorld world(1);
    run_worker_threads(world, [&](int device) {
      c10::InferenceMode inference;
      const ProbeSetting setting{&site, o, tensor, kSamples, {}};
      ProbeCall call(setting);
      memory = measure_memory(setting, call, device);
    });
    return memory;
  }
  throw std::logic_error("no option " + option);
}

TEST(ProbeMemory, LinearKeepsItsInput) {
  const Linear layer("fc", 32, 48);
  const LayerMemory m = memory_of(site_of(layer, {{32}}));
  EXPECT_EQ(m.output, kSamples * 48 * kFloat);
  EXPECT_EQ(m.output_shares_input, -1);
  EXPECT_EQ(m.saved, 0);
  EXPECT_EQ(m.keeps_input, (std::vector<bool>{true}));
  EXPECT_FALSE(m.keeps_output);
  EXPECT_EQ(m.input_gradients, (std::vector<int64_t>{kSamples * 32 * kFloat}));
}

TEST(ProbeMemory, LinearBackwardInTwoParts) {
  const Linear layer("fc", 32, 48);
  const LayerMemory m = memory_of(site_of(layer, {{32}}));
  EXPECT_EQ(m.input_workspace, 0);
  EXPECT_EQ(m.deferred, 0) << "besides the input and the output's gradient";
  EXPECT_TRUE(m.defers_gradient);
  EXPECT_EQ(m.weight_workspace, 48 * kFloat) << "the bias's gradient, before it is added";
  EXPECT_EQ(m.parameter_workspace, 48 * kFloat);
  EXPECT_FALSE(memory_of(site_of(Relu("relu"), {{40}})).deferred.has_value());
}

TEST(ProbeMemory, AShardOfColumnsHasItsPartOfTheOutput) {
  const Linear layer("fc", 32, 48);
  const LayerMemory columns = memory_of(site_of(layer, {{32}}), "columns", 4);
  EXPECT_EQ(columns.output, kSamples * 12 * kFloat);
  EXPECT_EQ(columns.input_gradients, (std::vector<int64_t>{kSamples * 32 * kFloat}));
  const LayerMemory rows = memory_of(site_of(layer, {{32}}), "rows", 4);
  EXPECT_EQ(rows.output, kSamples * 48 * kFloat);
  EXPECT_EQ(rows.input_gradients, (std::vector<int64_t>{kSamples * 8 * kFloat}));
}

TEST(ProbeMemory, ConvolutionKeepsItsInput) {
  const Conv2d layer("conv", {.in = 8, .out = 16, .kernel = 3, .padding = 1});
  const LayerMemory m = memory_of(site_of(layer, {{8, 20, 20}}));
  EXPECT_EQ(m.output, kSamples * 16 * 400 * kFloat);
  EXPECT_EQ(m.saved, 0);
  EXPECT_EQ(m.keeps_input, (std::vector<bool>{true}));
  EXPECT_FALSE(m.keeps_output);
  EXPECT_EQ(m.input_gradients, (std::vector<int64_t>{kSamples * 8 * 400 * kFloat}));
}

TEST(ProbeMemory, ReluKeepsItsOutput) {
  const Relu layer("relu");
  const LayerMemory m = memory_of(site_of(layer, {{40}}));
  EXPECT_EQ(m.output, kSamples * 40 * kFloat);
  EXPECT_EQ(m.saved, 0);
  EXPECT_EQ(m.keeps_input, (std::vector<bool>{false}));
  EXPECT_TRUE(m.keeps_output);
  EXPECT_EQ(m.forward_workspace, 0);
  EXPECT_EQ(m.backward_workspace, 0);
  EXPECT_EQ(m.input_gradients, (std::vector<int64_t>{kSamples * 40 * kFloat}));
}

TEST(ProbeMemory, FlattenPassesItsInputOn) {
  const Flatten layer("flatten");
  const LayerMemory m = memory_of(site_of(layer, {{12, 5}}));
  EXPECT_EQ(m.output, 0);
  EXPECT_EQ(m.output_shares_input, 0);
  EXPECT_FALSE(m.keeps_output);
  EXPECT_EQ(m.input_gradients, (std::vector<int64_t>{0})) << "the output's gradient under another shape";
}

TEST(ProbeMemory, AttentionKeepsHeadsAndWeights) {
  constexpr int64_t kPositions = 10, kWidth = 24, kHeads = 3;
  const Attention layer("attention", {.heads = kHeads});
  const LayerMemory m = memory_of(site_of(layer, {{kPositions, kWidth}, {kPositions, kWidth}, {kPositions, kWidth}}));
  const int64_t value = kSamples * kPositions * kWidth * kFloat,
                weights = kSamples * kHeads * kPositions * kPositions * kFloat;
  EXPECT_EQ(m.output, value);
  EXPECT_EQ(m.saved, 3 * value + weights) << "queries, keys, values head by head, and what the softmax gave";
  EXPECT_EQ(m.keeps_input, (std::vector<bool>{false, false, false}));
  EXPECT_FALSE(m.keeps_output);
  EXPECT_EQ(m.input_gradients, (std::vector<int64_t>{value, value, value}));
  EXPECT_GE(m.forward_workspace, value) << "the weighted values before they are joined";
}

TEST(ProbeMemory, WithoutABackwardNothingIsKept) {
  const Relu layer("relu");
  LayerSite site = site_of(layer, {{40}});
  site.differentiated = false;
  const LayerMemory m = memory_of(site);
  EXPECT_EQ(m.output, kSamples * 40 * kFloat);
  EXPECT_EQ(m.saved, 0);
  EXPECT_FALSE(m.keeps_output);
  EXPECT_EQ(m.input_gradients, (std::vector<int64_t>{0}));
}

}  // namespace
}  // namespace trireme
