// Operators placed on devices: the clock of a step by hand, and the search beside every placement.
#include "planner/placement/operator_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

namespace trireme {
namespace {

/// The least time of all placements.
double least_seconds(const OperatorProblem& problem) {
  std::vector<int> device_of(problem.items.size(), 0);
  double least = std::numeric_limits<double>::infinity();
  while (true) {
    least = std::min(least, seconds_of(problem, device_of));
    size_t i = 0;
    while (i < device_of.size() && ++device_of[i] == problem.devices) device_of[i++] = 0;
    if (i == device_of.size()) return least;
  }
}

/// Items in which each reads one or two of the last few; the last one reads all that nothing else reads.
OperatorProblem random_problem(std::mt19937_64& random, int count, int devices) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  OperatorProblem problem{.devices = devices, .items = {}, .bandwidth = uniform(1, 100), .latency = uniform(0, 0.1)};
  for (int i = 0; i < count; ++i) {
    OperatorProblem::Item item{.forward = uniform(0.1, 1), .backward = uniform(0.1, 2), .bytes = uniform(0, 10)};
    std::set<int> inputs;
    for (int k = 0; k < 2 && i > 0; ++k) inputs.insert(std::max(0, i - 1 - int(random() % 3)));
    item.inputs.assign(inputs.begin(), inputs.end());
    problem.items.push_back(std::move(item));
  }
  std::set<int> open;
  for (int i = 0; i + 1 < count; ++i) open.insert(i);
  for (int i = 0; i + 1 < count; ++i)
    for (const int input : problem.items[size_t(i)].inputs) open.erase(input);
  problem.items.back().inputs.assign(open.begin(), open.end());
  return problem;
}

/// A fork into two branches and a join: 1, then 2 beside 4, then 1. Two seconds for each value that moves.
TEST(OperatorPlacement, TheClockOfAFork) {
  OperatorProblem problem{.devices = 2,
                          .items = {{.forward = 1, .backward = 10, .bytes = 4},
                                    {.forward = 2, .backward = 20, .bytes = 4, .inputs = {0}},
                                    {.forward = 4, .backward = 40, .bytes = 4, .inputs = {0}},
                                    {.forward = 1, .backward = 10, .bytes = 0, .inputs = {1, 2}}},
                          .bandwidth = 2,
                          .latency = 0};
  EXPECT_DOUBLE_EQ(seconds_of(problem, {0, 0, 0, 0}), 8 + 80);
  // Forward: 1, then 4 beside a transfer, 2 and the way back (2 + 2 + 2), then 1: 1 + 6 + 1. Backward: 10, then 40
  // beside 2 + 20 + 2, then 10.
  EXPECT_DOUBLE_EQ(seconds_of(problem, {0, 1, 0, 0}), 8 + 60);
  // The long branch moves: 1 + (2 + 4 + 2) + 1, and 10 + (2 + 40 + 2) + 10.
  EXPECT_DOUBLE_EQ(seconds_of(problem, {0, 0, 1, 0}), 10 + 64);
  problem.latency = 0.5;
  EXPECT_DOUBLE_EQ(seconds_of(problem, {0, 0, 1, 0}), 11 + 65);
  const OperatorPlacement found = find_placement(problem);
  EXPECT_DOUBLE_EQ(found.seconds, least_seconds(problem));
  // A path takes 1 + 4 + 1 and 10 + 40 + 10.
  EXPECT_DOUBLE_EQ(found.bound, 66);
}

/// One device sends both values, one after the other; a value that two items of a device read moves once.
TEST(OperatorPlacement, TransfersShareTheWayOut) {
  const OperatorProblem problem{.devices = 3,
                                .items = {{.forward = 1, .bytes = 6},
                                          {.forward = 1, .inputs = {0}},
                                          {.forward = 1, .inputs = {0}},
                                          {.forward = 1, .inputs = {0}},
                                          {.forward = 1, .inputs = {1, 2, 3}}},
                                .bandwidth = 2,
                                .latency = 0};
  // Forward: 1, 3 for each of two transfers, 1, 1. Backward: the gradients come back beside each other to one way in.
  EXPECT_DOUBLE_EQ(seconds_of(problem, {0, 0, 1, 2, 0}), 9 + 6);
  EXPECT_DOUBLE_EQ(seconds_of(problem, {0, 0, 1, 1, 0}), 1 + 3 + 2 + 1 + 3);
}

TEST(OperatorPlacement, IsTheBestOfAllWhereAllAreTried) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int gained = 0;
  for (int round = 0; round < 60; ++round) {
    const int devices = 2 + round % 2;
    const OperatorProblem problem = random_problem(random, devices == 2 ? 11 : 7, devices);
    const double least = least_seconds(problem);
    const OperatorPlacement found = find_placement(problem);
    EXPECT_NEAR(found.seconds, least, 1e-9 * least);
    EXPECT_DOUBLE_EQ(found.seconds, seconds_of(problem, found.device_of));
    EXPECT_LE(found.bound, least * (1 + 1e-12));
    gained += found.seconds < seconds_of(problem, std::vector<int>(problem.items.size(), 0)) * (1 - 1e-9);
  }
  EXPECT_GT(gained, 10);
}

/// Longer than what is tried as a whole: found part by part, so the best is known from the parts alone.
TEST(OperatorPlacement, PartsBetweenCutsAreIndependent) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 5; ++round) {
    OperatorProblem whole{.devices = 2, .items = {}, .bandwidth = 20, .latency = 0.01};
    double least = 0;
    for (int part = 0; part < 8; ++part) {
      OperatorProblem own = random_problem(random, 8, 2);
      own.bandwidth = whole.bandwidth;
      own.latency = whole.latency;
      // Its first item is the only one that reads what is before it: a cut before and after.
      least += least_seconds(own);
      const int begin = int(whole.items.size());
      for (OperatorProblem::Item& item : own.items) {
        for (int& input : item.inputs) input += begin;
        whole.items.push_back(item);
      }
      if (begin > 0) whole.items[size_t(begin)].inputs = {begin - 1};
    }
    const OperatorPlacement found = find_placement(whole);
    EXPECT_NEAR(found.seconds, least, 1e-9 * least);
    EXPECT_LE(found.bound, least);
  }
}

/// A part that is too large to try everything: wide, so that much can be gained, and within the bound.
TEST(OperatorPlacement, OfLargePartsIsGood) {
  OperatorProblem problem{.devices = 3, .items = {{.forward = 1, .backward = 2, .bytes = 1}}, .bandwidth = 100};
  std::vector<int> ends;
  for (int branch = 0; branch < 9; ++branch) {
    for (int k = 0; k < 4; ++k) {
      const int input = k == 0 ? 0 : int(problem.items.size()) - 1;
      problem.items.push_back({.forward = 1 + 0.1 * branch, .backward = 2, .bytes = 1, .inputs = {input}});
    }
    ends.push_back(int(problem.items.size()) - 1);
  }
  problem.items.push_back({.forward = 1, .backward = 2, .bytes = 1, .inputs = ends});
  const OperatorPlacement found = find_placement(problem);
  EXPECT_LT(found.seconds, 1.1 * found.bound);
  EXPECT_EQ(found.device_of, find_placement(problem).device_of);
}

TEST(OperatorPlacement, WhereNothingIsGainedAllIsOnOneDevice) {
  OperatorProblem chain{.devices = 2, .items = {}, .bandwidth = 1};
  for (int i = 0; i < 20; ++i)
    chain.items.push_back(
        {.forward = 1, .backward = 2, .bytes = 1, .inputs = i > 0 ? std::vector{i - 1} : std::vector<int>()});
  const OperatorPlacement found = find_placement(chain);
  EXPECT_EQ(std::set<int>(found.device_of.begin(), found.device_of.end()).size(), 1u);
  EXPECT_DOUBLE_EQ(found.seconds, 60);
  EXPECT_DOUBLE_EQ(found.bound, 60);
}

}  // namespace
}  // namespace trireme
