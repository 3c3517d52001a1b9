// The latency model: evaluation by an independent simulation, the planner against brute force over all placements.
#include "planner/latency.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "random_graphs.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Ready times raised until nothing changes; what never settles waits for itself.
double simulate(const PlacementProblem& problem, const Placement& placement) {
  const size_t count = placement.size();
  std::vector<double> load(size_t(problem.accelerators) + 1, 0), bytes(load.size(), 0), ready(count, 0);
  for (size_t v = 0; v < count; ++v) {
    const PlacementNode& node = problem.nodes[v];
    const size_t device = size_t(placement[v]);
    if (device == 0 ? problem.cpus == 0 : !node.on_accelerator) return kInfinity;
    for (size_t u = 0; u < v; ++u)
      if (node.color && node.color == problem.nodes[u].color && placement[u] != placement[v]) return kInfinity;
    bytes[device] += node.bytes;
    load[device] += node.accelerator;
    std::set<int> others;
    for (int next : problem.edges.successors[v])
      if (placement[size_t(next)] != placement[v]) others.insert(placement[size_t(next)]);
    if (!others.empty()) load[device] += node.send;
    for (int other : others) load[size_t(other)] += node.send;
  }
  for (size_t d = 1; d < bytes.size(); ++d)
    if (bytes[d] > problem.memory) return kInfinity;
  for (size_t sweep = 0; sweep <= 2 * count + load.size(); ++sweep) {
    std::vector<double> start(load.size(), 0), next = ready;
    for (size_t v = 0; v < count; ++v)
      for (int reader : problem.edges.successors[v]) {
        const size_t device = size_t(placement[size_t(reader)]);
        if (device == 0) next[size_t(reader)] = std::max(next[size_t(reader)], ready[v] + problem.nodes[size_t(reader)].cpu);
        else if (placement[v] != placement[size_t(reader)]) start[device] = std::max(start[device], ready[v]);
      }
    for (size_t v = 0; v < count; ++v)
      next[v] = std::max(next[v], placement[v] == 0 ? problem.nodes[v].cpu : start[size_t(placement[v])] + load[size_t(placement[v])]);
    if (next == ready) {
      double latency = 0;
      for (double time : ready) latency = std::max(latency, time);
      return latency;
    }
    ready = next;
  }
  return kInfinity;
}

/// Loads above 0, so that a part that waits for itself never settles.
PlacementProblem random_inference(Random& random, int nodes) {
  PlacementProblem problem = random_placement(random, nodes, false);
  for (PlacementNode& node : problem.nodes) {
    node.accelerator += 0.01;
    node.cpu += 0.02;
  }
  problem.accelerators = 1 + int(random() % 2);
  return problem;
}

bool next_placement(Placement& placement, int accelerators) {
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
    Placement placement(problem.nodes.size(), 0);
    do {
      const double expected = simulate(problem, placement);
      const auto found = placement_latency(problem, placement);
      ASSERT_EQ(found.has_value(), expected < kInfinity);
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
    double best = kInfinity;
    Placement placement(problem.nodes.size(), 0);
    do best = std::min(best, simulate(problem, placement));
    while (next_placement(placement, problem.accelerators));
    EXPECT_LE(latency_bound(problem), best * (1 + 1e-9));
    const GraphPlan plan = plan_latency(problem, "file", Deadline(std::nullopt));
    EXPECT_NEAR(plan.objective, best, 1e-4 * best);  // the integer program's own tolerances
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
  EXPECT_NEAR(plan(), 10, 1e-9);  // one device: the sum
  problem.accelerators = 4;
  EXPECT_NEAR(plan(), 8, 1e-9);   // nothing to send: the critical path
  for (PlacementNode& node : problem.nodes) node.send = 50;
  EXPECT_NEAR(plan(), 10, 1e-9);  // sending is dear: all on one again
  problem.memory = 20;
  problem.cpus = 1;
  EXPECT_LE(plan(), 210);         // two accelerators cannot hold four apart, and CPUs can
}

}  // namespace
}  // namespace trireme
