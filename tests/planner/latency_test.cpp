// The latency model: compares its evaluation with an independent simulation and the planner with brute force over all
// placements.
#include "planner/graph_files/latency.h"

#include <gtest/gtest.h>

#include "brute_force.h"
#include "random_graphs.h"

namespace trireme {
namespace {

bool next_placement(DevicePlacement& placement, int accelerators) {
  for (int& device : placement) {
    if (++device <= accelerators) return true;
    device = 0;
  }
  return false;
}

TEST(Latency, OfAPlacementIsThatOfASimulation) {
  const uint64_t seed = 31;
  Random random(seed);
  int allowed = 0;
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const PlacementProblem problem = random_inference(random, 1 + int(random() % 6));
    DevicePlacement placement(problem.nodes.size(), 0);
    do {
      const double expected = simulated_latency(problem, placement);
      const auto found = placement_latency(problem, placement);
      ASSERT_EQ(found.has_value(), expected < kNever);
      if (!found) continue;
      ++allowed;
      ASSERT_NEAR(*found, expected, 1e-9);
    } while (next_placement(placement, problem.accelerators));
  }
  EXPECT_GT(allowed, 1000);
}

TEST(Latency, PlanIsTheBestOfAllPlacements) {
  const uint64_t seed = 77;
  Random random(seed);
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const PlacementProblem problem = random_inference(random, 2 + int(random() % 6));
    const double best = latency_brute_force(problem);
    EXPECT_LE(latency_bound(problem), best * (1 + 1e-9));
    const GraphPlan plan = plan_latency(problem, "file", Deadline(std::nullopt));
    EXPECT_NEAR(plan.objective, best, 1e-4 * best);  // tolerances of the integer program
    EXPECT_LE(plan.lower_bound, best * (1 + 1e-9));
    EXPECT_GE(plan.lower_bound, best * (1 - 1e-3));
  }
}

TEST(Latency, KnownCases) {
  PlacementProblem problem;
  for (int v = 0; v < 4; ++v) {
    PlacementNode node;
    node.accelerator = v == 1 ? 4 : 2;
    node.cpu = 100;
    node.bytes = 10;
    problem.nodes.push_back(node);
  }
  // 0 -> {1, 2} -> 3
  problem.edges = make_dag(4, std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  problem.memory = 1000;
  problem.accelerators = 1;
  const auto plan = [&] { return plan_latency(problem, "file", Deadline(std::nullopt)).objective; };
  EXPECT_NEAR(plan(), 10, 1e-9);  // one device: the sum of all times
  problem.accelerators = 4;
  EXPECT_NEAR(plan(), 8, 1e-9);  // sending is free: the critical path
  for (PlacementNode& node : problem.nodes) node.send = 50;
  EXPECT_NEAR(plan(), 10, 1e-9);  // sending is expensive: all on one device again
  problem.memory = 20;
  problem.cpus = 1;
  EXPECT_LE(plan(), 210);  // an accelerator holds only two nodes, a CPU holds all
}

}  // namespace
}  // namespace trireme
