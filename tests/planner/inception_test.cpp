// The graph at which the published exact program gives up, and one for which cuts are too many.
#include "planner/max_load.h"
#include "planner/pipedream.h"
#include "profiles.h"

namespace trireme {
namespace {

constexpr double kSeconds = 60, kGap = 0.01;

void expect_proven(const GraphPlan& plan) {
  EXPECT_GE(plan.lower_bound, (1 - kGap) * plan.objective) << plan.proof;
  EXPECT_GT(plan.states, 36'000u);
}

TEST(Inception, InPipeDreamsModel) {
  TRIREME_PROFILE_OR_SKIP(file, "pipedream/inception_v3.txt");
  const GraphPlan plan = plan_pipedream(read_layer_graph(file), {8, 1e9, false, {}}, Deadline(kSeconds));
  expect_proven(plan);
  EXPECT_NEAR(plan.objective, 0.119514656, 1e-9);  // found by this search first: no published value
}

TEST(Inception, InTheMaxLoadModel) {
  TRIREME_PROFILE_OR_SKIP(file, "pipedream/inception_v3.txt");
  const LayerGraph profile = read_layer_graph(file);
  double work = 0;
  for (const LayerProfile& layer : profile.layers) work += layer.forward + layer.backward;
  const GraphPlan plan = plan_max_load(training_placement(profile, 6, 16e9, 10e9), "inception_v3", Deadline(kSeconds));
  expect_proven(plan);
  EXPECT_GE(plan.objective, work / 6);
}

TEST(WideGraph, HasTooManyIdealsAndABound) {
  LayerGraph wide;  // 2^30 ideals
  for (int v = 0; v < 30; ++v) wide.layers.push_back({std::to_string(v), "Layer", 1 + v % 7 * 0.1, 0, 10, 10});
  wide.edges = make_dag(30, {});
  const GraphPlan plan = plan_pipedream(wide, {4, 1e9, true, {}});
  EXPECT_LT(plan.lower_bound, plan.objective);
  EXPECT_LT(plan.objective, 1.2 * plan.lower_bound);
  EXPECT_EQ(plan.states, 0u);
  EXPECT_NE(plan.proof.find("more than"), std::string::npos);
}

}  // namespace
}  // namespace trireme
