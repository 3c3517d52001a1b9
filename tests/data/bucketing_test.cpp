#include <algorithm>
#include <numeric>
#include <random>

#include "data/sampler.h"
#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;

std::vector<int32_t> random_lengths(int64_t n, std::mt19937& random) {
  std::vector<int32_t> lengths(static_cast<size_t>(n));
  for (int32_t& length : lengths) length = std::uniform_int_distribution<int32_t>(1, 60)(random);
  return lengths;
}

/// Share of positions without a token in batches of samples with these `lengths`, in this order. `whole`: each batch is
/// padded to the longest of all samples; `own`: to its own longest sample.
struct PaddingShare {
  double whole = 0;
  double own = 0;
};
PaddingShare padding_share(const std::vector<int32_t>& lengths, const std::vector<int64_t>& order, int64_t batch) {
  const auto n = static_cast<int64_t>(order.size());
  int64_t tokens = 0, own = 0, longest = 0;
  for (int64_t first = 0; first < n; first += batch) {
    const int64_t last = std::min(first + batch, n);
    int64_t here = 0;
    for (int64_t i = first; i < last; ++i) {
      const int64_t length = lengths.at(static_cast<size_t>(order[static_cast<size_t>(i)]));
      tokens += length;
      here = std::max(here, length);
    }
    own += here * (last - first);
    longest = std::max(longest, here);
  }
  const auto share = [tokens](int64_t positions) {
    return positions == 0 ? 0.0 : 1 - static_cast<double>(tokens) / static_cast<double>(positions);
  };
  return {.whole = share(longest * n), .own = share(own)};
}

struct Extent {
  int32_t least = 0, most = 0;
};

Extent extent_of(const std::vector<int32_t>& lengths, const std::vector<int64_t>& batch) {
  Extent extent{lengths[static_cast<size_t>(batch[0])], lengths[static_cast<size_t>(batch[0])]};
  for (const int64_t i : batch) {
    extent.least = std::min(extent.least, lengths[static_cast<size_t>(i)]);
    extent.most = std::max(extent.most, lengths[static_cast<size_t>(i)]);
  }
  return extent;
}

TEST(BucketedOrder, IsAPermutationThatDependsOnSeedAndEpochOnly) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (auto [n, batch] : {std::pair<int64_t, int64_t>{1, 1}, {5, 8}, {12, 4}, {1000, 7}, {5000, 16}, {3200, 64}}) {
    const auto lengths = random_lengths(n, random);
    std::vector<int64_t> order = bucketed_order(lengths, batch, seed, 3);
    EXPECT_EQ(order, bucketed_order(lengths, batch, seed, 3));
    if (n > 100) {
      EXPECT_NE(order, bucketed_order(lengths, batch, seed, 4));
      EXPECT_NE(order, bucketed_order(lengths, batch, seed + 1, 3));
    }
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order.at(static_cast<size_t>(i)), i);
  }
}

/// The batches of a pool hold samples of neighbouring lengths: two batches share at most one length.
TEST(BucketedOrder, HoldsLengthsTogetherWithinABatch) {
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const int64_t batch = 16, n = kPoolBatches * batch + 9;  // one pool, and a short batch
  const auto lengths = random_lengths(n, random);
  const BatchSampler sampler(n, batch, seed, false, SampleOrder::bucketed, lengths);
  ASSERT_EQ(sampler.steps_per_epoch(), kPoolBatches + 1);
  std::vector<Extent> extents;
  for (int64_t k = 0; k < kPoolBatches; ++k) extents.push_back(extent_of(lengths, sampler.batch(2, k)));
  EXPECT_FALSE(std::is_sorted(extents.begin(), extents.end(), [](Extent a, Extent b) { return a.least < b.least; }))
      << "short batches do not come first";
  std::sort(extents.begin(), extents.end(),
            [](Extent a, Extent b) { return a.least != b.least ? a.least < b.least : a.most < b.most; });
  for (size_t k = 1; k < extents.size(); ++k) EXPECT_LE(extents[k - 1].most, extents[k].least);
  EXPECT_EQ(sampler.batch(2, kPoolBatches).size(), 9u);
  EXPECT_TRUE(sampler.starts_anew(1)) << "bucketed samples do not continue each other";
}

TEST(BucketedOrder, LeavesTheRestForAShortLastBatch) {
  const int64_t batch = 4, n = 2 * kPoolBatches * batch + 3;
  std::mt19937 random(1);
  const auto lengths = random_lengths(n, random);
  std::vector<int64_t> rest = bucketed_order(lengths, batch, 5, 0), shuffled = sample_order(n, 5, 0);
  EXPECT_TRUE(std::equal(rest.end() - 3, rest.end(), shuffled.end() - 3));
  const BatchSampler dropping(n, batch, 5, true, SampleOrder::bucketed, lengths);
  EXPECT_EQ(dropping.steps_per_epoch(), 2 * kPoolBatches);
}

TEST(PaddingShare, CountsPositionsWithoutTokens) {
  const std::vector<int32_t> lengths{1, 4, 2, 3};
  const PaddingShare share = padding_share(lengths, {0, 1, 2, 3}, 2);  // batches {1, 4} and {2, 3}
  EXPECT_DOUBLE_EQ(share.whole, 6.0 / 16);
  EXPECT_DOUBLE_EQ(share.own, 1 - 10.0 / (8 + 6));
  EXPECT_DOUBLE_EQ(padding_share(lengths, {0, 2, 3, 1}, 2).own, 1 - 10.0 / (4 + 8));
}

TEST(PaddingShare, ShrinksWithBuckets) {
  std::mt19937 random(3);
  const auto lengths = random_lengths(10000, random);
  const PaddingShare shuffled = padding_share(lengths, sample_order(10000, 1, 0), 32);
  const PaddingShare bucketed = padding_share(lengths, bucketed_order(lengths, 32, 1, 0), 32);
  EXPECT_DOUBLE_EQ(shuffled.whole, bucketed.whole);
  EXPECT_GT(shuffled.own, 0.4) << "the longest of 32 even draws is near 60, the mean 30";
  EXPECT_LT(bucketed.own, 0.03);
}

}  // namespace
}  // namespace trireme
