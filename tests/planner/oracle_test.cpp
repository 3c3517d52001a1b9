// Compares the planner with brute force on larger graphs than the unit tests: 7 to 9 layers, up to 4 devices, all three
// cost models.
#include "../base/expect_error.h"
#include "brute_force.h"
#include "planner/graph_files/max_load.h"
#include "random_graphs.h"

namespace trireme {
namespace {

constexpr int kRounds = 200, kRoundsOfPrograms = 10, kMostDevices = 4;
constexpr double kExact = 1e-9;          // relative: sums in another order
constexpr double kOfThePrograms = 1e-4;  // relative: CBC's tolerances

int layers(Random& random) { return 7 + int(random() % 3); }

DevicePlacement placement_of(const GraphPlan& plan, size_t nodes) {
  DevicePlacement placement(nodes, kOnCpu);
  int accelerator = 0;
  for (const GraphStage& stage : plan.stages) {
    const int device = stage.device == "cpu" ? kOnCpu : ++accelerator;
    for (int v : stage.nodes) placement[size_t(v)] = device;
  }
  return placement;
}

TEST(Oracle, OfPipeDreamsModel) {
  const uint64_t seed = 409;
  Random random(seed);
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const LayerGraph graph = random_profile(random, layers(random));
    PipeDreamCosts costs{.devices = 2 + int(random() % 3),
                         .bandwidth = 1e6 * (0.1 + draw(random, 10)),
                         .straight = random() % 4 == 0,
                         .memory = {}};
    if (random() % 3 == 0) costs.memory = draw(random, 4e6);
    const GraphPlan plan = plan_pipedream(graph, costs);
    const double best = PipeDreamBruteForce(graph, costs).best();
    ASSERT_NEAR(plan.objective, best, kExact * best);
    EXPECT_EQ(plan.lower_bound, plan.objective);
    check_pipedream_stages(graph, costs, plan);
  }
}

TEST(Oracle, OfTheMaxLoadModel) {
  const uint64_t seed = 410;
  Random random(seed);
  int infeasible = 0;
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    PlacementProblem problem = random_placement(random, layers(random), random() % 3 != 0);
    problem.cpus = int(random() % 3);
    problem.accelerators = 1 + int(random() % uint64_t(kMostDevices - problem.cpus));
    if (problem.cpus == 0)
      for (PlacementNode& node : problem.nodes) node.on_accelerator = true;
    const double best = MaxLoadBruteForce(problem).best();
    if (best == kNever) {
      ++infeasible;
      expect_error(Blame::user, {"file", "bytes", "missing per device"}, [&] { plan_max_load(problem, "file"); });
      continue;
    }
    const GraphPlan plan = plan_max_load(problem, "file");
    ASSERT_NEAR(plan.objective, best, kExact * best);
    EXPECT_NEAR(plan.lower_bound, best, kExact * best);
  }
  EXPECT_LT(infeasible, kRounds / 2);
}

TEST(Oracle, OfTheLatencyModel) {
  const uint64_t seed = 411;
  Random random(seed);
  for (int round = 0; round < kRoundsOfPrograms; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    PlacementProblem problem = random_inference(random, layers(random));
    problem.accelerators = 2 + int(random() % 2);
    const double best = latency_brute_force(problem);
    const GraphPlan plan = plan_latency(problem, "file", Deadline(std::nullopt));
    EXPECT_NEAR(plan.objective, best, kOfThePrograms * best);
    EXPECT_NEAR(simulated_latency(problem, placement_of(plan, problem.nodes.size())), plan.objective, kExact * best);
    EXPECT_LE(plan.lower_bound, best * (1 + kExact));
    EXPECT_GE(plan.lower_bound, best * (1 - 1e-3));
  }
}

}  // namespace
}  // namespace trireme
