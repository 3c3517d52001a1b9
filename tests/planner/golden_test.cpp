// Results of the published programs on the published graphs.
#include <fmt/format.h>

#include "planner/graph_files/latency.h"
#include "planner/graph_files/max_load.h"
#include "planner/graph_files/pipedream.h"
#include "profiles.h"

namespace trireme {
namespace {

constexpr double kRelative = 1e-6;

struct PipeDreamRow {
  std::string graph;
  int devices;
  bool straight;
  double bottleneck;  // seconds
};

class PipeDreamGolden : public ::testing::TestWithParam<PipeDreamRow> {};

TEST_P(PipeDreamGolden, IsTheOfficialOptimizersResult) {
  const PipeDreamRow& row = GetParam();
  TRIREME_PROFILE_OR_SKIP(file, fmt::format("pipedream/{}.txt", row.graph));
  const GraphPlan plan = plan_pipedream(read_layer_graph(file), {row.devices, 1e9, row.straight, {}});
  EXPECT_NEAR(plan.objective, row.bottleneck, kRelative * row.bottleneck);
  EXPECT_EQ(plan.lower_bound, plan.objective);
}

INSTANTIATE_TEST_SUITE_P(
    Table, PipeDreamGolden,
    ::testing::Values(PipeDreamRow{"vgg16", 4, false, .205520896}, PipeDreamRow{"vgg16", 8, false, .103833170},
                      PipeDreamRow{"vgg16", 16, false, .056529767}, PipeDreamRow{"resnet50", 4, false, .162880924},
                      PipeDreamRow{"resnet50", 8, false, .092012272}, PipeDreamRow{"gnmt", 4, true, .025868}),
    [](const auto& row) { return row.param.graph + "_" + std::to_string(row.param.devices); });

TEST(PipeDreamStages, OfVgg) {
  TRIREME_PROFILE_OR_SKIP(file, "pipedream/vgg16.txt");
  const GraphPlan plan = plan_pipedream(read_layer_graph(file), {16, 1e9, false, {}});
  ASSERT_EQ(plan.stages.size(), 3u);
  EXPECT_EQ(plan.stages[0].replicas, 13);
  EXPECT_EQ(plan.stages[1].replicas, 2);
  EXPECT_EQ(plan.stages[2].replicas, 1);
  EXPECT_NEAR(plan.stages[0].compute, .622120, 1e-6);
  EXPECT_NEAR(plan.stages[1].compute, .040265, 1e-6);
  EXPECT_NEAR(plan.stages[2].compute, .010150, 1e-6);
}

struct PlacementRow {
  std::string graph;
  double value;
  size_t ideals;
};

class MaxLoadGolden : public ::testing::TestWithParam<PlacementRow> {};

TEST_P(MaxLoadGolden, IsThePublishedOptimum) {
  const PlacementRow& row = GetParam();
  TRIREME_PROFILE_OR_SKIP(file, fmt::format("dnn-partitioning/{}.json", row.graph));
  const GraphPlan plan = plan_max_load(read_placement(file), row.graph);
  EXPECT_NEAR(plan.objective, row.value, kRelative * row.value);
  EXPECT_EQ(plan.lower_bound, plan.objective);
  EXPECT_EQ(plan.states, row.ideals);
}

INSTANTIATE_TEST_SUITE_P(Table, MaxLoadGolden,
                         ::testing::Values(PlacementRow{"bert24_training", 41.7458, 30},
                                           PlacementRow{"resnet50_training", 78.6318, 242},
                                           PlacementRow{"bert_l-3_training", 65.3031, 2774}),
                         [](const auto& row) {
                           return row.param.graph.substr(0, 6) + std::to_string(row.param.ideals);
                         });

class LatencyGolden : public ::testing::TestWithParam<PlacementRow> {};

TEST_P(LatencyGolden, IsAtMostTheGreedysWithinTheBound) {
  const PlacementRow& row = GetParam();
  TRIREME_PROFILE_OR_SKIP(file, fmt::format("dnn-partitioning/latency/{}.json", row.graph));
  const PlacementProblem problem = read_placement(file);
  const auto placement = quick_placement(problem, Deadline(std::nullopt));
  ASSERT_TRUE(placement.has_value());
  const double latency = placement_latency(problem, *placement).value();
  EXPECT_LE(latency, row.value);
  EXPECT_GT(latency_bound(problem), 0);
  EXPECT_LE(latency_bound(problem), latency * (1 + 1e-12));
}

INSTANTIATE_TEST_SUITE_P(Table, LatencyGolden,
                         ::testing::Values(PlacementRow{"bert24_inference", 100.219, 0},
                                           PlacementRow{"resnet50_inference", 4197.06, 0}),
                         [](const auto& row) { return row.param.graph; });

TEST(LatencyProof, OfBert24) {
  TRIREME_PROFILE_OR_SKIP(file, "dnn-partitioning/latency/bert24_inference.json");
  const GraphPlan plan = plan_latency(read_placement(file), "bert24", Deadline(10));
  EXPECT_LE(plan.objective, 100.219);
  EXPECT_NEAR(plan.lower_bound, plan.objective, kRelative * plan.objective);
}

}  // namespace
}  // namespace trireme
