// PipeDream's cost model: compares the planner with brute force over all assignments of layers to stages.
#include "planner/graph_files/pipedream.h"

#include <gtest/gtest.h>

#include "brute_force.h"
#include "random_graphs.h"

namespace trireme {
namespace {

constexpr double kBandwidth = 1e6;

TEST(PipeDream, FindsTheOptimumOfRandomGraphs) {
  const uint64_t seed = 2025;
  Random random(seed);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const int nodes = round < 140 ? 1 + int(random() % 6) : 7 + int(random() % 3);
    const LayerGraph graph = random_profile(random, nodes);
    PipeDreamCosts costs{.devices = 1 + int(random() % 4),
                         .bandwidth = kBandwidth * (0.1 + draw(random, 10)),
                         .straight = random() % 4 == 0,
                         .memory = {}};
    if (nodes > 6) costs.devices = std::min(costs.devices, 3);
    if (random() % 3 == 0) costs.memory = draw(random, 4e6);
    const GraphPlan plan = plan_pipedream(graph, costs);
    const double best = PipeDreamBruteForce(graph, costs).best();
    ASSERT_NEAR(plan.objective, best, 1e-9 * best);
    EXPECT_EQ(plan.lower_bound, plan.objective);
    check_pipedream_stages(graph, costs, plan);
  }
}

TEST(PipeDream, NeverGetsWorseWithMore) {
  const uint64_t seed = 7;
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const LayerGraph graph = random_profile(random, 4 + int(random() % 12));
    const PipeDreamCosts costs{
        .devices = 1 + int(random() % 6), .bandwidth = kBandwidth, .straight = false, .memory = draw(random, 4e6)};
    const double least = plan_pipedream(graph, costs).objective * (1 - 1e-12);
    PipeDreamCosts more = costs;
    more.devices += 1 + int(random() % 3);
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    more = costs;
    more.bandwidth *= 2;
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    more = costs;
    *more.memory *= 2;
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    more.memory.reset();
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    PipeDreamCosts straight = costs;
    straight.straight = true;
    EXPECT_GE(plan_pipedream(graph, straight).objective * (1 + 1e-9), least);
  }
}

LayerGraph chain(const std::vector<double>& seconds, double weights, double activations) {
  LayerGraph graph;
  std::vector<std::pair<int, int>> edges;
  for (size_t v = 0; v < seconds.size(); ++v) {
    graph.layers.push_back({fmt::format("n{}", v), "Layer", seconds[v], 0, activations, weights});
    if (v > 0) edges.push_back({int(v) - 1, int(v)});
  }
  graph.edges = make_dag(int(seconds.size()), edges);
  return graph;
}

TEST(PipeDream, KnownCases) {
  const LayerGraph graph = chain({1, 2, 3, 4}, 100, 100);
  EXPECT_DOUBLE_EQ(plan_pipedream(graph, {1, 1e9, false, {}}).objective, 10);
  // Exchanging weights is nearly free: the work is divided evenly.
  EXPECT_NEAR(plan_pipedream(graph, {4, 1e15, false, {}}).objective, 2.5, 1e-6);
  EXPECT_NEAR(plan_pipedream(graph, {4, 1e15, true, {}}).objective, 4, 1e-6);
  EXPECT_NEAR(plan_pipedream(graph, {3, 1e15, true, {}}).objective, 4, 1e-6);
  // The link is too slow for any exchange: one device does all the work.
  EXPECT_DOUBLE_EQ(plan_pipedream(graph, {4, 1e-9, false, {}}).objective, 10);
}

TEST(PipeDream, InputsAndUnreadResultsCostNothing) {
  LayerGraph graph = chain({5, 1, 2, 7}, 0, 1);
  graph.layers[0].description = "Input0";
  graph.layers[3].description = "__getitem__(1)";
  const GraphPlan plan = plan_pipedream(graph, {1, 1e9, false, {}});
  EXPECT_DOUBLE_EQ(plan.objective, 3);
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.stages[0].nodes.size(), 4u);
}

TEST(PipeDream, WhereTimeEndsTheSearchTheBoundSaysSo) {
  Random random(3);
  const LayerGraph graph = random_profile(random, 14);
  const GraphPlan cut_short = plan_pipedream(graph, {4, kBandwidth, false, {}}, Deadline(0));
  const GraphPlan whole = plan_pipedream(graph, {4, kBandwidth, false, {}});
  EXPECT_LE(cut_short.lower_bound, whole.objective);
  EXPECT_GE(cut_short.objective, whole.objective);
  // With this many devices one pass takes minutes.
  const auto start = Deadline::Clock::now();
  const GraphPlan many = plan_pipedream(graph, {1 << 16, kBandwidth, false, {}}, Deadline(0.01));
  EXPECT_LT(std::chrono::duration<double>(Deadline::Clock::now() - start).count(), 5);
  EXPECT_LE(many.lower_bound, many.objective);
  check_pipedream_stages(graph, {1 << 16, kBandwidth, false, {}}, many);
}

}  // namespace
}  // namespace trireme
