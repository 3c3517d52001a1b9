// A layer that only this test defines: predictions use the costs that it states.
#include <gtest/gtest.h>

#include <algorithm>

#include "cost/cluster_links.h"
#include "cost/datasheet_costs.h"
#include "cost/instruction_costs.h"
#include "cost/memory.h"
#include "model/export/script_source.h"
#include "model/export/writers.h"
#include "plan/named.h"
#include "program/compile.h"
#include "trireme/layer.h"
#include "trireme/layers/mean_squared_error.h"

namespace trireme {
namespace {

constexpr int64_t kFeatures = 8, kBatch = 4;
constexpr double kFlops = 1e9;        // forward of one sample
constexpr double kExchanged = 12000;  // bytes of the only exchange in forward
constexpr int64_t kKept = 1 << 20;    // bytes that a call keeps for backward

/// y = 2 x, can be split by features; states the costs of a larger layer.
class Doubled final : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "doubled"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  std::vector<ParameterSpec> parameters() const override {
    return {{name() + ".weight", {kFeatures}, Init::constant(1)}};
  }
  std::vector<ShardingOption> sharding_options(std::span<const Shape>, int degree) const override {
    const Placement whole = Placement::replicate(), features = Placement::shard(1);
    std::vector<ShardingOption> options{{.name = "replicate",
                                         .inputs = {whole},
                                         .output = whole,
                                         .input_gradients = {whole},
                                         .parameters = {whole},
                                         .parameter_gradients = {whole}}};
    if (degree > 1)
      options.push_back({.name = "features",
                         .inputs = {features},
                         .output = features,
                         .input_gradients = {features},
                         .parameters = {Placement::shard(0)},
                         .parameter_gradients = {Placement::shard(0)},
                         .divides_work = true,
                         .communicates_over_tensor_axis = true});
    return options;
  }
  at::Tensor forward(LayerCall&, std::span<const at::Tensor> inputs) const override { return inputs[0]; }
  std::vector<at::Tensor> backward(LayerCall&, const at::Tensor& gradient) const override { return {gradient}; }

  double forward_flops(std::span<const Shape>) const override { return kFlops; }
  LayerMemory memory(const CallShapes& call) const override {
    LayerMemory memory = Layer::memory(call);
    memory.saved = kKept;
    return memory;
  }
  std::vector<OperatorWork> work(const CallShapes&, double flops, Pass) const override {
    return {{.operators = 5, .flops = flops, .bytes = 0, .multiplies = false}};
  }
  LayerExchanges exchanges(const CallShapes&) const override {
    return {{{RedistributionKind::all_reduce, kExchanged}}, {}};
  }
  OutputType output_type() const override { return OutputType::master; }
  void to_script(ScriptWriter& w) const override { w.result(script_call("mul", {w.in(), "2"})); }
};

struct OwnLayer : ::testing::Test {
  OwnLayer() : model(make()), node(model.find("own")) {
    cluster = Cluster::uniform(2);
    cluster.nodes = {ClusterNode{.link = {1e9, 1e-6, false}, .price_per_hour = 0, .instance = ""}};
    cluster.kinds.push_back({.name = "made up",
                             .speeds = {{"fp32", {.peak_flops = 1e12, .greatest_efficiency = 0.5, .half_work = 1e6}}},
                             .memory_bandwidth = 100e9,
                             .memory = int64_t{1} << 30,
                             .launch = 1e-5,
                             .source = "made up"});
    for (Device& device : cluster.devices) device.kind = 0;
  }
  static Model make() {
    ModelBuilder builder("own");
    const NodeId data = builder.input("data", {kFeatures}), target = builder.input("target", {kFeatures});
    const NodeId x = builder.layer<Doubled>({data}, "own");
    return builder.finish(x, builder.layer<MeanSquaredError>({x, target}, "loss"));
  }
  ShardingOption option(int degree) const {
    return model.node(node).layer->sharding_options(model.input_shapes(node), degree).back();
  }

  const Model model;
  const NodeId node;
  Cluster cluster;
};

TEST_F(OwnLayer, StatesItsWork) {
  const DatasheetCosts costs(model, cluster, Precision::fp32, 0);
  EXPECT_NEAR(costs.seconds(node, option(1), 1, kBatch).forward, 5 * 1e-5 + kBatch * kFlops / 1e12, 1e-12);
  EXPECT_NEAR(costs.seconds(node, option(2), 2, kBatch).forward, 5 * 1e-5 + kBatch * kFlops / 2 / 1e12, 1e-12);
}

TEST_F(OwnLayer, StatesItsMemory) {
  const DatasheetCosts costs(model, cluster, Precision::fp32, 0);
  EXPECT_EQ(costs.memory(node, option(1), 1, kBatch).saved, kKept);
  const Program program = compile(model, named_plan("single", model, Cluster::uniform(1), kBatch, {}), {});
  const int ranks[] = {0};
  const MemoryOptions options{.batch = kBatch, .input_types = {c10::ScalarType::Float, c10::ScalarType::Float}};
  EXPECT_GT(predict_memory(program, model, costs, options, ranks).at(0).peak, kKept);
}

TEST_F(OwnLayer, StatesItsExchanges) {
  Plan plan = named_plan("tensor", model, cluster, kBatch, {});
  plan.layers[size_t(node)].split = "features";
  const Program program = compile(model, plan, {});
  const DatasheetCosts layers(model, cluster, Precision::fp32, 0);
  const ClusterLinks links(cluster);
  InstructionCosts costs(program, model, cluster, layers, links, {.batch = kBatch});
  double sent = 0;
  for (const Instruction& i : program.instructions(0))
    if (i.code == OpCode::forward) sent += costs.of(0, i).bytes_sent;
  EXPECT_DOUBLE_EQ(sent, kExchanged);  // in an all-reduce of two workers each sends all its bytes
}

TEST_F(OwnLayer, WritesItselfDown) { EXPECT_NE(script_source(model).find("torch.mul(x_0, 2)"), std::string::npos); }

}  // namespace
}  // namespace trireme
