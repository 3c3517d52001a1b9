#include "base/random.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace trireme {
namespace {

using Words = std::array<uint32_t, 4>;

// From kat_vectors of Random123 (philox4x32, 10 rounds). It lists 32-bit words from the lowest up.
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(Philox(0)(0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull)(~0ull, ~0ull), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox(0x299f31d0'a4093822)(0x85a308d3'243f6a88, 0x03707344'13198a2e),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

struct Moments {
  double mean = 0, variance = 0, fourth = 0;
};

template <class Draw>
Moments moments(int64_t n, Draw draw) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += draw(i) / double(n);
  for (int64_t i = 0; i < n; ++i) {
    const double square = std::pow(draw(i) - m.mean, 2);
    m.variance += square / double(n);
    m.fourth += square * square / double(n);
  }
  return m;
}

// Tolerances are five standard errors of n draws: fewer than one key in a million fails.
TEST(Philox, UniformHasTheMomentsOfItsDistribution) {
  constexpr int64_t n = 200'000;
  for (uint64_t key : {1ull, 2ull, 0xdeadbeefull}) {
    Philox random(key);
    const Moments m = moments(n, [&](int64_t i) { return random.uniform(uint64_t(i), 7); });
    EXPECT_NEAR(m.mean, 0.5, 5 * std::sqrt(1.0 / 12 / n));
    EXPECT_NEAR(m.variance, 1.0 / 12, 5 * std::sqrt((1.0 / 80 - 1.0 / 144) / n));
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_GE(random.uniform(uint64_t(i)), 0.0);
      ASSERT_LT(random.uniform(uint64_t(i)), 1.0);
    }
  }
}

TEST(Philox, NormalHasTheMomentsOfItsDistribution) {
  constexpr int64_t n = 200'000;
  for (uint64_t key : {1ull, 2ull, 0xdeadbeefull}) {
    Philox random(key);
    const Moments m = moments(n, [&](int64_t i) { return random.normal(uint64_t(i)); });
    EXPECT_NEAR(m.mean, 0, 5 * std::sqrt(1.0 / n));
    EXPECT_NEAR(m.variance, 1, 5 * std::sqrt(2.0 / n));
    EXPECT_NEAR(m.fourth, 3, 5 * std::sqrt(96.0 / n));
  }
}

TEST(Philox, NeighbouringCountersAndStreamsAreUncorrelated) {
  constexpr int n = 100'000;
  Philox random(5);
  double along = 0, across = 0;
  for (uint64_t i = 0; i < n; ++i) {
    along += random.normal(i) * random.normal(i + 1) / n;
    across += random.normal(i, 0) * random.normal(i, 1) / n;
  }
  EXPECT_NEAR(along, 0, 5 / std::sqrt(double(n)));
  EXPECT_NEAR(across, 0, 5 / std::sqrt(double(n)));
}

TEST(RandomKey, DependsOnSeedAndPurpose) {
  std::set<uint64_t> keys;
  for (uint64_t seed = 0; seed < 100; ++seed)
    for (const char* purpose : {"conv1.weight", "conv1.bias", "order", ""}) keys.insert(random_key(seed, purpose));
  EXPECT_EQ(keys.size(), 400u);
  EXPECT_EQ(random_key(3, "order"), random_key(3, "order"));
}

TEST(RandomPermutation, HoldsEachElementOnceAndDependsOnTheKeyOnly) {
  for (int64_t n : {0, 1, 2, 3, 17, 1000}) {
    auto order = random_permutation(n, 9);
    EXPECT_EQ(order, random_permutation(n, 9));
    std::sort(order.begin(), order.end());
    std::vector<int64_t> expected(static_cast<size_t>(n));
    std::iota(expected.begin(), expected.end(), int64_t{0});
    EXPECT_EQ(order, expected);
  }
  EXPECT_NE(random_permutation(1000, 1), random_permutation(1000, 2));
}

TEST(RandomPermutation, AllOrdersOfFourAreEquallyLikely) {
  constexpr int kDraws = 24'000, kOrders = 24;
  std::map<std::vector<int64_t>, int> counts;
  for (int key = 0; key < kDraws; ++key) ++counts[random_permutation(4, random_key(uint64_t(key), "test"))];
  ASSERT_EQ(counts.size(), size_t(kOrders));
  double chi_square = 0;
  const double expected = double(kDraws) / kOrders;
  for (const auto& [order, count] : counts) chi_square += std::pow(count - expected, 2) / expected;
  EXPECT_LT(chi_square, 60);  // 23 degrees of freedom: a fair shuffle exceeds it once in 30 000
}

}  // namespace
}  // namespace trireme
