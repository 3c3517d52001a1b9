// Work that shares cores and links. Expected times are worked out by hand.
#include "program/shared_resources.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

Pool link(double bandwidth) { return {Pool::Kind::link, bandwidth}; }
Pool cores(int count) { return {Pool::Kind::cores, double(count)}; }

/// The end of each piece of work, by id.
std::map<int, double> ends_of(SharedResources& clock) {
  std::map<int, double> ends;
  for (int id = clock.next(); id >= 0; id = clock.next()) ends[id] = clock.now();
  return ends;
}

void begin(SharedResources& clock, int id, double fixed, std::vector<Share> shares = {}) {
  clock.begin(id, fixed, shares);
}

TEST(SharedResources, FixedTimesPass) {
  SharedResources clock({});
  begin(clock, 0, 2);
  begin(clock, 1, 1);
  begin(clock, 2, 0);
  EXPECT_EQ(clock.next(), 2);
  EXPECT_EQ(clock.now(), 0);
  EXPECT_EQ(clock.next(), 1);
  EXPECT_EQ(clock.now(), 1);
  begin(clock, 1, 5);  // an id may be used again
  EXPECT_EQ(clock.next(), 0);
  EXPECT_EQ(clock.next(), 1);
  EXPECT_EQ(clock.now(), 6);
  EXPECT_EQ(clock.next(), -1);
}

TEST(SharedResources, TransfersShareALink) {
  SharedResources clock({link(10)});
  begin(clock, 0, 0, {{0, 100}});
  begin(clock, 1, 0, {{0, 30}});
  // Each transfer gets half the link until 30 bytes are sent at 6 s; then the other 70 bytes go at 10 bytes/s.
  const auto ends = ends_of(clock);
  EXPECT_NEAR(ends.at(1), 6, 1e-9);
  EXPECT_NEAR(ends.at(0), 13, 1e-9);
}

TEST(SharedResources, ALateOneSlowsTheOthers) {
  SharedResources clock({link(10)});
  begin(clock, 0, 0, {{0, 100}});
  begin(clock, 1, 4, {{0, 30}});  // begins after a latency of 4 s
  // The first sends 40 bytes until 4 s. Then both get half: 30 bytes take 6 s, in which the first sends 30 of its 60;
  // the last 30 take 3 s.
  const auto ends = ends_of(clock);
  EXPECT_NEAR(ends.at(1), 10, 1e-9);
  EXPECT_NEAR(ends.at(0), 13, 1e-9);
}

TEST(SharedResources, WorkEndsWithItsLastShare) {
  SharedResources clock({link(10), link(1)});
  begin(clock, 0, 1, {{0, 10}, {1, 5}});
  EXPECT_NEAR(ends_of(clock).at(0), 6, 1e-9);
}

TEST(SharedResources, ThreadsTakeTurnsOnFewCores) {
  SharedResources clock({cores(2)});
  for (int id = 0; id < 4; ++id) begin(clock, id, 0, {{0, 3}});
  for (const auto& [id, end] : ends_of(clock)) EXPECT_NEAR(end, 6, 1e-9) << id;
}

TEST(SharedResources, ACrowdedMachineIsSlower) {
  for (int count : {1, 2, 3, 4}) {
    SharedResources clock({cores(3)});
    for (int id = 0; id < count; ++id) begin(clock, id, 0, {{0, 1, 1.5}});
    const double expected = count == 1 ? 1 : count == 2 ? 1.25 : count == 3 ? 1.5 : 1.5 * 4 / 3;
    for (const auto& [id, end] : ends_of(clock)) EXPECT_NEAR(end, expected, 1e-9) << count;
  }
}

/// The bytes of a link do not depend on which transfers share it.
TEST(SharedResources, NoBytesAreLost) {
  SharedResources clock({link(7), cores(2)});
  double bytes = 0;
  for (int id = 0; id < 50; ++id) {
    const double amount = 1 + (id * 37) % 11;
    bytes += amount;
    begin(clock, id, 0, {{0, amount}, {1, 1e-3 * amount}});
  }
  double last = 0;
  for (const auto& [id, end] : ends_of(clock)) last = std::max(last, end);
  EXPECT_NEAR(last, bytes / 7, 1e-9);
}

}  // namespace
}  // namespace trireme
