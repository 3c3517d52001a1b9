#include "base/devices/core_speed.h"

#include <gtest/gtest.h>

#include "base/devices/at_core_speed.h"
#include "base/devices/memory_speed.h"

namespace trireme {
namespace {

TEST(CoreSpeed, MeasuresOnlyWhenItIsDue) {
  CoreSpeed speed(1000);
  EXPECT_TRUE(speed.measure(1));
  EXPECT_FALSE(speed.measure(2)) << "the next time is counted from the clock's now";
  const CoreTimes times = speed.take();
  EXPECT_EQ(times.count, 1);
  EXPECT_GT(times.seconds, 0);
  EXPECT_EQ(speed.take().count, 0) << "taken before";
}

TEST(CoreSpeed, LeavesInterruptedMeasurementsOut) {
  CoreSpeed speed(0);
  for (int i = 1; i <= 200; ++i) speed.measure(1e12);
  const CoreTimes times = speed.take();
  EXPECT_GE(times.count, 100);
  EXPECT_LT(*times.mean(), 0.01) << "seconds for 200,000 products";
}

TEST(AtCoreSpeed, IsLongerOnSlowerCoresButNotInProportion) {
  EXPECT_EQ(at_core_speed(3, 5e-5, 5e-5), 3);
  EXPECT_GT(at_core_speed(3, 5e-5, 1e-4), 5);
  EXPECT_LT(at_core_speed(3, 5e-5, 1e-4), 6);
  EXPECT_DOUBLE_EQ(at_core_speed(at_core_speed(3, 5e-5, 8e-5), 8e-5, 5e-5), 3);
}

TEST(MemorySpeed, IsThatOfAMemory) {
  const std::optional<double> speed = memory_speed();
  ASSERT_TRUE(speed);
  EXPECT_GT(*speed, 1e8) << "bytes per second: slower than any memory since 1995";
  EXPECT_LT(*speed, 2e12) << "faster than any memory, even a cache shared by cores";
}

TEST(CoreTimes, HaveAMeanWhereThereIsAMeasurement) {
  CoreTimes times;
  EXPECT_FALSE(times.mean());
  times += {3, 2};
  times += {1, 2};
  EXPECT_EQ(times.mean(), 1);
}

}  // namespace
}  // namespace trireme
