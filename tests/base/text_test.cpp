#include "base/text.h"

#include <gtest/gtest.h>

#include "base/counted.h"

namespace trireme {
namespace {

TEST(Text, EditDistanceCountsSingleChanges) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("epohcs", "epochs"), 1);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(Text, ClosestMatchGivesTheNearestOrNone) {
  const std::vector<std::string> known = {"batch", "epochs", "optimizer.rate"};
  EXPECT_EQ(closest_match("bacth", known), "batch");
  EXPECT_EQ(closest_match("optimiser.rate", known), "optimizer.rate");
  EXPECT_EQ(closest_match("colour", known), "");
  EXPECT_EQ(closest_match("x", {}), "");
}

TEST(Text, CountsHaveTheirUnit) {
  EXPECT_EQ(counted(1, "step"), "1 step");
  EXPECT_EQ(counted(0, "step"), "0 steps");
  EXPECT_EQ(counted(2, "process", "processes"), "2 processes");
}

TEST(Text, Joins) {
  EXPECT_EQ(join({}), "");
  EXPECT_EQ(join({"a"}), "a");
  EXPECT_EQ(join({"a", "b", "a"}), "a, b, a");
  EXPECT_EQ(join_with_and({}), "");
  EXPECT_EQ(join_with_and({"a"}), "a");
  EXPECT_EQ(join_with_and({"a", "b"}), "a and b");
  EXPECT_EQ(join_with_and({"a", "b", "c"}), "a, b and c");
}

TEST(Text, Lines) {
  EXPECT_EQ(lines_of("a\n\n b\nc"), (std::vector<std::string>{"a", " b", "c"}));
  EXPECT_EQ(lines_of("a\n"), std::vector<std::string>{"a"});
  EXPECT_TRUE(lines_of("").empty());
}

}  // namespace
}  // namespace trireme
