#include "cost/profiled_costs.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

LayerMeasurement measured(double forward, double backward, int64_t output) {
  LayerMeasurement m;
  m.forward = {forward, forward, forward};
  m.backward = {backward, backward, backward};
  m.backward_input = 0.6 * backward;
  m.backward_weight = 0.5 * backward;
  m.memory.output = output;
  m.memory.keeps_input = {true};
  m.memory.input_gradients = {2 * output};
  return m;
}

using Sizes = std::map<int64_t, LayerMeasurement>;

TEST(InterpolatedCost, IsExactWhereItWasMeasured) {
  const Sizes sizes{{2, measured(3, 5, 100)}, {8, measured(9, 11, 400)}};
  const LayerCost cost = interpolated_cost(sizes, 8);
  EXPECT_EQ(cost.basis, Basis::measured);
  EXPECT_EQ(cost.forward, 9);
  EXPECT_EQ(cost.backward, 11);
  EXPECT_EQ(cost.stretch, 1);
  EXPECT_EQ(interpolated_memory(sizes, 2).output, 100);
}

TEST(InterpolatedCost, LiesOnTheLineBetweenTwoSizes) {
  Sizes sizes{{2, measured(3, 5, 100)}, {8, measured(9, 11, 400)}, {16, measured(11, 50, 800)}};
  sizes[2].crowding = 1.2;
  sizes[8].crowding = 1.8;
  const LayerCost cost = interpolated_cost(sizes, 4);
  EXPECT_EQ(cost.basis, Basis::interpolated);
  EXPECT_DOUBLE_EQ(cost.forward, 5);
  EXPECT_DOUBLE_EQ(cost.backward, 7);
  EXPECT_DOUBLE_EQ(cost.backward_input, 0.6 * 7);
  EXPECT_DOUBLE_EQ(cost.crowding, 1.4);
  EXPECT_EQ(interpolated_memory(sizes, 4).output, 200);
  EXPECT_EQ(interpolated_memory(sizes, 4).input_gradients, (std::vector<int64_t>{400}));
  EXPECT_DOUBLE_EQ(interpolated_cost(sizes, 12).forward, 10);
}

TEST(InterpolatedCost, SaysHowFarItStretches) {
  const Sizes sizes{{2, measured(3, 5, 100)}, {8, measured(9, 11, 400)}};
  const LayerCost large = interpolated_cost(sizes, 32);
  EXPECT_EQ(large.basis, Basis::extrapolated);
  EXPECT_EQ(large.stretch, 4);
  EXPECT_DOUBLE_EQ(large.forward, 33);
  EXPECT_EQ(interpolated_memory(sizes, 32).output, 1600);
  const LayerCost small = interpolated_cost(sizes, 1);
  EXPECT_EQ(small.basis, Basis::extrapolated);
  EXPECT_EQ(small.stretch, 2);
  EXPECT_DOUBLE_EQ(small.forward, 2);
  const Sizes one{{4, measured(8, 12, 400)}};
  EXPECT_DOUBLE_EQ(interpolated_cost(one, 8).forward, 16);
  EXPECT_DOUBLE_EQ(interpolated_cost(one, 1).forward, 2);
  EXPECT_EQ(interpolated_cost(one, 1).stretch, 4);
}

TEST(InterpolatedCost, NoiseMakesNothingFree) {
  // A falling line, and a line that crosses zero.
  const Sizes falling{{2, measured(3, 5, 100)}, {4, measured(2, 4, 200)}};
  EXPECT_DOUBLE_EQ(interpolated_cost(falling, 64).forward, 2);
  EXPECT_LE(interpolated_cost(falling, 1).forward, 3);
  const Sizes steep{{4, measured(1, 1, 100)}, {8, measured(10, 10, 200)}};
  EXPECT_DOUBLE_EQ(interpolated_cost(steep, 1).forward, 0.25);
}

class Costs : public ::testing::Test {
 protected:
  Model model =
      make_model({.name = "mlp", .sample_shape = {8}, .classes = 4, .options = {{"hidden", 8}, {"depth", 1}}});
  NodeId linear = model.input_count();

  ShardingOption option(NodeId node, int tensor, size_t index = 0) const {
    return model.node(node).layer->sharding_options(model.input_shapes(node), tensor).at(index);
  }
};

TEST_F(Costs, AreFoundByTheLayersFacts) {
  const LayerSites sites(model, {});
  NodeId node = model.input_count();
  while (model.node(node).layer->kind() != "linear") ++node;
  Profile profile;
  profile.layers[sites.key(node, option(node, 1), 1)] = {{4, measured(1, 2, 10)}};
  profile.updates = {{"sgd fp32", 1, 1e-6, 1e-9, 1}, {"sgd fp32", 2, 1e-6, 1.5e-9, 1.3}};
  const ProfiledCosts costs(model, profile);
  EXPECT_EQ(costs.seconds(node, option(node, 1), 1, 4).forward, 1);
  EXPECT_EQ(costs.seconds(node, option(node, 2), 2, 4).forward, 1) << "whole on each of two workers";
  EXPECT_EQ(costs.memory(node, option(node, 1), 1, 8).output, 20);
  EXPECT_EQ(costs.seconds(node, option(node, 1), 1, 0).forward, 0) << "no samples, no work";
  expect_error(Blame::user, {"profile", model.node(node).name, "columns", "degree 2", "trireme profile"},
               [&] { costs.seconds(node, option(node, 2, 1), 2, 4); });

  EXPECT_DOUBLE_EQ(costs.update_seconds(1000, 2), 1e-6 + 1.5e-6);
  EXPECT_DOUBLE_EQ(costs.update_seconds(1000, 4), 1e-6 + 2.5e-6) << "each further gradient costs what the second did";
  EXPECT_EQ(costs.update_seconds(0, 2), 0);
  EXPECT_EQ(costs.update_crowding(1), 1);
  const ProfiledCosts adam(model, profile, {.optimizer = {.kind = &kAdam}});
  expect_error(Blame::user, {"adam fp32", "trireme profile"}, [&] { adam.update_seconds(10, 1); });
}

TEST_F(Costs, AreMultipliedByWhatStepsTakeBeyondTheirLayers) {
  const LayerSites sites(model, {});
  Profile profile;
  LayerMeasurement layer = measured(1, 2, 10);
  layer.crowding = 1.25;
  profile.layers[sites.key(linear, option(linear, 1), 1)] = {{4, layer}};
  profile.updates = {{"sgd fp32", 1, 1e-6, 1e-9, 1.1}};
  const ProfiledCosts costs(model, profile, {.factors = {.seconds = 1.5, .crowding = 2}});
  const LayerCost before = costs.seconds(linear, option(linear, 1), 1, 4);
  EXPECT_DOUBLE_EQ(before.forward, 1.5);
  EXPECT_DOUBLE_EQ(before.backward_weight, 1.5);
  EXPECT_DOUBLE_EQ(before.crowding, 2.5);
  EXPECT_DOUBLE_EQ(costs.update_seconds(1000, 1), 1.5 * 2e-6);
  EXPECT_DOUBLE_EQ(costs.update_crowding(1), 2.2);
  costs.set_factors({.seconds = 1, .crowding = 0.5});
  EXPECT_DOUBLE_EQ(costs.seconds(linear, option(linear, 1), 1, 4).forward, 1);
  EXPECT_DOUBLE_EQ(costs.seconds(linear, option(linear, 1), 1, 4).crowding, 1) << "more workers are never faster";
}

TEST_F(Costs, MeasuresWhatIsMissingWhereItMay) {
  const ProfiledCosts costs(model, {}, {.measures_missing = true});
  for (NodeId node = model.input_count(); node < NodeId(model.nodes().size()); ++node) {
    const LayerCost cost = costs.seconds(node, option(node, 1), 1, 2);
    EXPECT_EQ(cost.basis, Basis::measured);
    EXPECT_GT(cost.forward, 0);
  }
  EXPECT_EQ(costs.seconds(linear, option(linear, 1), 1, 8).basis, Basis::measured) << "sizes beyond the known ones too";
  EXPECT_EQ(costs.seconds(linear, option(linear, 1), 1, 4).basis, Basis::interpolated)
      << "what lies between two of them is on their line";
  EXPECT_FALSE(costs.profile().layers.empty());
}

}  // namespace
}  // namespace trireme
