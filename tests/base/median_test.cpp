#include "base/median.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Median, IsTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({8, 1, 4, 2}), 3);
}

TEST(Median, NthLeastCountsFromZero) {
  EXPECT_EQ(nth_least({9, 1, 4}, 0), 1);
  EXPECT_EQ(nth_least({9, 1, 4, 4}, 2), 4);
  EXPECT_EQ(nth_least({9, 1, 4}, 2), 9);
}

}  // namespace
}  // namespace trireme
