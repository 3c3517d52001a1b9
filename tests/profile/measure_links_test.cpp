#include "profile/measure_links.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(MeasureLinks, EveryOperationHasALineThatNeverFalls) {
  const LinkMeasurement links = measure_links({2});
  ASSERT_EQ(links.groups.size(), 1u);
  const GroupMeasurement& group = links.groups[0];
  std::vector<std::string> names{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send"};
  for (RedistributionKind kind : {RedistributionKind::all_reduce, RedistributionKind::all_gather,
                                  RedistributionKind::reduce_scatter, RedistributionKind::all_to_all})
    names.push_back(redistribution_line(kind));
  EXPECT_EQ(group.lines.size(), names.size());
  for (const std::string& name : names) {
    ASSERT_TRUE(group.lines.count(name)) << name;
    const TransferLine& line = group.lines.at(name);
    double before = 0;
    for (double bytes = 1e3; bytes < 1e8; bytes *= 3) {
      EXPECT_GT(line.seconds(bytes), 0) << name << " " << bytes;
      EXPECT_GE(line.seconds(bytes), before) << name << " " << bytes;
      before = line.seconds(bytes);
    }
    // These bytes do not fit into caches, and no machine's memory is faster than this.
    EXPECT_LT(64e6 / line.seconds(64e6), 2e12) << name;
  }
  EXPECT_GT(links.hand_over, 0);
  EXPECT_GE(links.compute_slowdown, 1);
}

}  // namespace
}  // namespace trireme
