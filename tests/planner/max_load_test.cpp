// The max-load model: compares the planner with brute force over all assignments of colours to devices.
#include "planner/graph_files/max_load.h"

#include <map>

#include "../base/expect_error.h"
#include "brute_force.h"
#include "random_graphs.h"

namespace trireme {
namespace {

TEST(MaxLoad, FindsTheOptimumOfRandomGraphs) {
  const uint64_t seed = 41;
  Random random(seed);
  int infeasible = 0;
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    PlacementProblem problem =
        random_placement(random, round < 140 ? 1 + int(random() % 5) : 6 + int(random() % 4), random() % 3 != 0);
    if (problem.nodes.size() > 12) problem.accelerators = std::min(problem.accelerators, 2), problem.cpus = 1;
    if (problem.accelerators > 0 && random() % 3 == 0) {
      problem.cpus = 0;
      for (PlacementNode& node : problem.nodes) node.on_accelerator = true;
    }
    const double best = MaxLoadBruteForce(problem).best();
    if (best == kNever) {
      ++infeasible;
      expect_error(Blame::user, {"file", "bytes", "missing per device"}, [&] { plan_max_load(problem, "file"); });
      continue;
    }
    const GraphPlan plan = plan_max_load(problem, "file");
    ASSERT_NEAR(plan.objective, best, 1e-9 * best);
    EXPECT_NEAR(plan.lower_bound, plan.objective, 1e-9 * best);
    // Evaluates the plan from its nodes only.
    std::vector<int> device(problem.nodes.size(), -1);
    std::vector<bool> is_cpu;
    for (const GraphStage& stage : plan.stages) {
      for (int v : stage.nodes) device[size_t(v)] = int(is_cpu.size());
      is_cpu.push_back(stage.device == "cpu");
    }
    EXPECT_NEAR(largest_load(problem, device, is_cpu), best, 1e-9 * best);
  }
  EXPECT_GT(infeasible, 3);
}

TEST(MaxLoad, NeverGetsWorseWithMore) {
  const uint64_t seed = 5;
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    PlacementProblem problem = random_placement(random, 3 + int(random() % 9), random() % 2 == 0);
    problem.cpus = std::max(problem.cpus, 1);
    const double best = plan_max_load(problem, "file").objective * (1 + 1e-9);
    PlacementProblem more = problem;
    ++more.accelerators;
    EXPECT_LE(plan_max_load(more, "file").objective, best);
    more = problem;
    ++more.cpus;
    EXPECT_LE(plan_max_load(more, "file").objective, best);
    more = problem;
    more.memory *= 2;
    EXPECT_LE(plan_max_load(more, "file").objective, best);
    more = problem;
    for (PlacementNode& node : more.nodes) node.send /= 2;
    EXPECT_LE(plan_max_load(more, "file").objective, best);
  }
}

TEST(MaxLoad, KnownCases) {
  Random random(17);
  PlacementProblem problem = random_placement(random, 6, true);
  for (PlacementNode& node : problem.nodes) node.on_accelerator = true;
  problem.memory = 1e9;
  double work = 0, cpu = 0, largest = 0;
  std::map<int, double> colors;
  for (PlacementNode& node : problem.nodes) {
    work += node.accelerator;
    cpu += node.cpu;
    largest = std::max(largest, colors[*node.color] += node.accelerator);
  }
  problem.accelerators = 1;
  problem.cpus = 0;
  EXPECT_NEAR(plan_max_load(problem, "file").objective, work, 1e-12 * work);
  problem.accelerators = 0;
  problem.cpus = 1;
  EXPECT_NEAR(plan_max_load(problem, "file").objective, cpu, 1e-12 * cpu);
  // Sending is free and each colour can have its own device: the load is at least that of the slowest colour.
  for (PlacementNode& node : problem.nodes) node.send = 0;
  problem.accelerators = 6;
  problem.cpus = 0;
  EXPECT_GE(plan_max_load(problem, "file").objective, largest * (1 - 1e-12));
}

TEST(MaxLoad, ReportsHowManyBytesAreMissing) {
  PlacementProblem problem;
  for (int v = 0; v < 3; ++v) {
    PlacementNode node;
    node.name = fmt::format("n{}", v);
    node.accelerator = 1;
    node.bytes = 600;
    problem.nodes.push_back(node);
  }
  problem.edges = make_dag(3, std::vector<std::pair<int, int>>{{0, 1}, {1, 2}});
  problem.accelerators = 2;
  problem.memory = 1000;
  expect_error(Blame::user, {"f.json", "2 x", "200 bytes", "missing per device", "1200 bytes"},
               [&] { plan_max_load(problem, "f.json"); });
  problem.memory = 1200;
  EXPECT_DOUBLE_EQ(plan_max_load(problem, "f.json").objective, 2);
  problem.accelerators = 0;
  expect_error(Blame::user, {"f.json", "no devices"}, [&] { plan_max_load(problem, "f.json"); });
  problem.accelerators = 2;
  problem.nodes[1].on_accelerator = false;
  expect_error(Blame::user, {"f.json", "n1", "CPU only"}, [&] { plan_max_load(problem, "f.json"); });
}

}  // namespace
}  // namespace trireme
