// Strategies after some of their devices are lost.
#include "plan/fewer_devices.h"

#include <gtest/gtest.h>

#include "../base/expect_error.h"

namespace trireme {
namespace {

using Answer = std::pair<std::string, int>;

Answer fewer(const std::string& strategy, int devices) {
  const auto found = on_fewer_devices(strategy, devices);
  return found ? Answer(found->strategy, found->devices) : Answer("", 0);
}

TEST(FewerDevices, NamesTakeWhatIsThere) {
  EXPECT_EQ(fewer("data", 3), Answer("data", 3));
  EXPECT_EQ(fewer("1f1b,micro_batches=6", 1), Answer("1f1b,micro_batches=6", 1));
  EXPECT_EQ(fewer("exact", 5), Answer("exact", 5));
}

TEST(FewerDevices, TheDataDegreeShrinks) {
  EXPECT_EQ(fewer("data=2,tensor=2", 4), Answer("data=2,tensor=2", 4)) << "all are there";
  EXPECT_EQ(fewer("data=2,tensor=2", 3), Answer("data=1,tensor=2", 2));
  EXPECT_EQ(fewer("tensor=2,data=4,micro_batches=2", 7), Answer("tensor=2,data=3,micro_batches=2", 6));
  EXPECT_EQ(fewer("pipeline=3,sharding=zero1,data=12", 10), Answer("pipeline=3,sharding=zero1,data=3", 9));
  EXPECT_EQ(fewer("data=3", 1), Answer("data=1", 1));
}

TEST(FewerDevices, OthersDoNot) {
  EXPECT_EQ(fewer("data=2,tensor=2", 1), Answer("", 0));
  EXPECT_EQ(fewer("tensor=4", 3), Answer("", 0));
  EXPECT_EQ(fewer("data,speeds=2:1:0.5", 2), Answer("", 0)) << "whose speed was lost is not known";
  expect_error(Blame::user, {"--plan", "dta"}, [] { on_fewer_devices("dta", 2); });
}

}  // namespace
}  // namespace trireme
