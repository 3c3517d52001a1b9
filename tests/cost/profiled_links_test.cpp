#include "cost/profiled_links.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace trireme {
namespace {

TransferLine line(double latency, double bandwidth) { return {.latency = latency, .bandwidth = bandwidth}; }

LinkMeasurement two_and_four() {
  LinkMeasurement links;
  links.hand_over = 1e-6;
  links.wake_up = 5e-5;
  links.groups = {{2,
                   {{"all_gather", line(1e-6, 10e9)},
                    {"redistribute all_gather", line(2e-6, 5e9)},
                    {"redistribute all_to_all", line(2e-6, 4e9)},
                    {"send", {1e-6, 8e9, 0, {{1e6, 2e-4}, {2e6, 5e-4}}}}},
                   1e-7},
                  {4, {{"redistribute all_gather", line(4e-6, 2e9)}}, 1e-7}};
  return links;
}

constexpr int kRanks[] = {0, 1, 2, 3};

std::span<const int> first(size_t count) { return std::span(kRanks).first(count); }

/// Every member's core has the same demand.
void expect_each(const Demand& demand, size_t members, double fixed, double seconds) {
  EXPECT_DOUBLE_EQ(demand.fixed, fixed);
  ASSERT_EQ(demand.shares.size(), members);
  for (const Share& share : demand.shares) EXPECT_NEAR(share.amount, seconds, 1e-12);
}

TEST(ProfiledLinks, LayersTensorsAndFlatOnesHaveLinesOfTheirOwn) {
  const ProfiledLinks links(two_and_four(), 2, 2);
  expect_each(links.collective(RedistributionKind::all_gather, 1e6, first(2), 1), 2, 1e-6, 1e-4);
  expect_each(links.redistribution(RedistributionKind::all_gather, 1e6, first(2), 1), 2, 2e-6, 2e-4);
  // Callers of an all-to-all give the bytes of one worker; the measurements are by the bytes of the whole tensor.
  expect_each(links.redistribution(RedistributionKind::all_to_all, 1e6, first(2), 1), 2, 2e-6, 5e-4);
  EXPECT_TRUE(links.redistribution(RedistributionKind::all_gather, 1e6, first(1), 1).is_nothing());
}

TEST(ProfiledLinks, ThreadsThatShareCoresWereMeasuredTakingTurns) {
  const ProfiledLinks links(two_and_four(), 4, 2);
  expect_each(links.redistribution(RedistributionKind::all_gather, 1e6, first(4), 1), 4, 4e-6, 5e-4 / 2);
  EXPECT_EQ(links.hand_over(), 5e-5);
}

TEST(ProfiledLinks, MessagesGoFromPointToPoint) {
  const ProfiledLinks links(two_and_four(), 2, 2);
  expect_each(links.message(0, 1, 1.5e6, 1), 1, 0, 3.5e-4 - 1e-6);
  EXPECT_TRUE(links.message(1, 1, 1.5e6, 1).is_nothing());
}

}  // namespace
}  // namespace trireme
