// The published tables that take little time to simulate. bench/validation.sh --check runs all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "validation/amoebanet.h"
#include "validation/simulated.h"
#include "validation/tables.h"
#include "validation/unet.h"

namespace trireme::validation {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Validation, GPipeWithManyMicroBatchesIsReproduced) { EXPECT_THAT(broken({gpipe_tpu(), gpipe_p100()}), IsEmpty()); }

TEST(Validation, SmallImagesAreFasterInDataParallelAndSlowerInAPipeline) {
  const Table table = small_images();
  for (const Claim& claim : table.claims) EXPECT_TRUE(claim.holds) << claim.what;
  EXPECT_EQ(table.claims.size(), 2u);
}

TEST(Validation, UNetHasThePublishedModulesAndParameters) {
  EXPECT_EQ(torchgpipe_unet(5, 64, 192).modules.size(), 241u);
  EXPECT_NEAR(double(torchgpipe_unet(6, 72, 192).model.parameter_count()), 362.2e6, 0.05e6);
}

TEST(Validation, AmoebaNetHasThePublishedParameters) { EXPECT_THAT(broken({amoebanet_weights()}), IsEmpty()); }

TEST(Validation, StagesOfCellsHaveTheLeastVarianceOfFlops) {
  const CellModel net = amoebanet(6, 32);
  std::vector<double> flops(size_t(net.cells.back()) + 1, 0);
  for (NodeId id = net.model.input_count(); id < NodeId(net.model.nodes().size()); ++id)
    flops[size_t(net.cells[size_t(id)])] += net.model.node(id).layer->forward_flops(net.model.input_shapes(id));
  const auto squares = [&](size_t first, size_t second) {  // sum of squares for three stages that end at these cells
    const auto sum = [&](size_t begin, size_t end) {
      return std::accumulate(flops.begin() + long(begin), flops.begin() + long(end), 0.0);
    };
    return std::pow(sum(0, first), 2) + std::pow(sum(first, second), 2) + std::pow(sum(second, flops.size()), 2);
  };
  double least = squares(1, 2);
  for (size_t first = 1; first < flops.size(); ++first)
    for (size_t second = first + 1; second < flops.size(); ++second) least = std::min(least, squares(first, second));
  const std::vector<int> stages = even_stages(net, 3);
  std::vector<size_t> ends(3, 0);
  for (size_t id = 0; id < stages.size(); ++id)
    ends[size_t(stages[id])] = std::max(ends[size_t(stages[id])], size_t(net.cells[id]) + 1);
  EXPECT_TRUE(std::is_sorted(stages.begin(), stages.end()));
  EXPECT_DOUBLE_EQ(squares(ends[0], ends[1]), least);
}

TEST(Validation, ARowThatLeavesItsGateIsNamed) {
  Table table{.title = "table",
              .source = {},
              .quantity = {},
              .setup = {},
              .calibrated = {},
              .rows = {},
              .claims = {},
              .remarks = {}};
  table.rows = {{.what = "inside", .published = 2, .predicted = 2.19, .limit = 0.1, .note = {}},
                {.what = "above", .published = 2, .predicted = 2.21, .limit = 0.1, .note = {}},
                {.what = "below", .published = 2, .predicted = 1.79, .limit = 0.1, .note = {}},
                {.what = "shown", .published = 2, .predicted = 9, .limit = {}, .note = {}},
                {.what = "missing", .published = 2, .predicted = {}, .limit = 0.1, .note = {}}};
  table.claims = {{"true", true}, {"false", false}};
  EXPECT_FALSE(table.holds());
  const std::vector<std::string> lines = broken({table});
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_THAT(lines[0], HasSubstr("above"));
  EXPECT_THAT(lines[1], HasSubstr("below"));
  EXPECT_THAT(lines[2], HasSubstr("missing"));
  EXPECT_THAT(lines[3], HasSubstr("does not hold: false"));
  EXPECT_THAT(page({table}), HasSubstr("| above | 2.00 | 2.21 | +10.5 % | 10 % **exceeded** |"));
}

TEST(Validation, SharesOfTimeDifferByTheirDifference) {
  Table table{.title = "table",
              .source = {},
              .quantity = {},
              .setup = {},
              .calibrated = {},
              .decimals = 4,
              .rows = {},
              .claims = {},
              .remarks = {}};
  table.rows = {
      {.what = "inside", .published = 0.002, .predicted = 0.0029, .limit = 0.001, .is_share = true, .note = {}},
      {.what = "above", .published = 0.9, .predicted = 0.9011, .limit = 0.001, .is_share = true, .note = {}}};
  const std::vector<std::string> lines = broken({table});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("above"));
  EXPECT_THAT(page({table}), HasSubstr("| inside | 0.0020 | 0.0029 | +0.0009 | 0.001 |  |"));
}

TEST(Validation, ZeroBubblePipelinesHaveThePublishedBubbles) {
  EXPECT_THAT(broken({zero_bubble_bubbles(), zero_bubble_fixed(), zero_bubble_larger(), zero_bubble_speed()}),
              IsEmpty());
}

TEST(Validation, SolveFindsWhereAFunctionReachesATarget) {
  EXPECT_NEAR(solve(0, 10, 9, [](double x) { return x * x; }), 3, 1e-9);
  EXPECT_NEAR(solve(1, 10, 0.25, [](double x) { return 1 / x; }), 4, 1e-9);
  EXPECT_NEAR(solve(0, 10, 200, [](double x) { return x * x; }), 10, 1e-9);  // not reached: returns the nearer end
}

}  // namespace
}  // namespace trireme::validation
