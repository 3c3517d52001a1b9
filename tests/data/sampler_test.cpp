#include "data/sampler.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "support.h"

namespace trireme {
namespace {

using namespace trireme::test_support;
using ::testing::HasSubstr;

std::vector<int64_t> epoch_of(const BatchSampler& sampler, int64_t epoch) {
  std::vector<int64_t> all;
  for (int64_t k = 0; k < sampler.steps_per_epoch(); ++k) {
    auto batch = sampler.batch(epoch, k);
    EXPECT_EQ(static_cast<int64_t>(batch.size()), sampler.batch_size_at(k));
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(BatchSampler, CoversEverySampleOncePerEpoch) {
  for (auto [n, batch] : {std::pair<int64_t, int64_t>{1, 1}, {10, 3}, {12, 4}, {7, 100}, {1000, 128}}) {
    BatchSampler sampler(n, batch, 42);
    auto order = epoch_of(sampler, 0);
    EXPECT_EQ(order, sample_order(n, 42, 0));
    std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(order.at(static_cast<size_t>(i)), i);
    EXPECT_EQ(static_cast<int64_t>(order.size()), n);
  }
}

TEST(BatchSampler, LastBatchIsShortOrDropped) {
  BatchSampler keep(10, 4, 0), drop(10, 4, 0, true);
  EXPECT_EQ(keep.steps_per_epoch(), 3);
  EXPECT_EQ(keep.batch(0, 2).size(), 2u);
  EXPECT_EQ(drop.steps_per_epoch(), 2);
  EXPECT_EQ(drop.batch(0, 1), keep.batch(0, 1));
  error_of([&] { drop.batch(0, 2); }, Blame::run);
}

TEST(BatchSampler, OrderDependsOnSeedAndEpochOnly) {
  BatchSampler a(500, 32, 1), b(500, 50, 1), c(500, 32, 2);
  EXPECT_EQ(epoch_of(a, 7), epoch_of(b, 7)) << "the batch size cuts the same order";
  EXPECT_NE(epoch_of(a, 7), epoch_of(a, 8));
  EXPECT_NE(epoch_of(a, 7), epoch_of(c, 7));
  auto seventh = a.batch(7, 0);
  a.batch(9, 0);
  EXPECT_EQ(a.batch(7, 0), seventh) << "after its order was replaced";
}

TEST(BatchSampler, ServesManyThreads) {
  BatchSampler sampler(300, 7, 3);
  std::vector<std::vector<int64_t>> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : got)
      threads.emplace_back([&] {
        for (int64_t epoch = 0; epoch < 20; ++epoch)
          for (int64_t k = 0; k < sampler.steps_per_epoch(); ++k)
            for (int64_t i : sampler.batch(epoch, k)) mine.push_back(i);
      });
  }
  for (const auto& one : got) EXPECT_EQ(one, got[0]);
}

TEST(BatchSampler, StreamRowsContinueFromStepToStep) {
  for (auto [n, rows] : {std::pair<int64_t, int64_t>{1, 1}, {10, 3}, {12, 4}, {1000, 128}, {7, 7}}) {
    BatchSampler sampler(n, rows, 5, false, SampleOrder::stream);
    const int64_t full = n / rows;
    ASSERT_EQ(sampler.steps_per_epoch(), (n + rows - 1) / rows);
    EXPECT_EQ(sampler.samples_per_epoch(), n);
    for (int64_t k = 0; k < sampler.steps_per_epoch(); ++k) {
      auto batch = sampler.batch(0, k);
      ASSERT_EQ(static_cast<int64_t>(batch.size()), k < full ? rows : n % rows);
      EXPECT_EQ(sampler.batch_size_at(k), static_cast<int64_t>(batch.size()));
      EXPECT_EQ(sampler.batch(3, k), batch) << "every epoch is the same";
      EXPECT_EQ(sampler.starts_anew(k), k == 0 || k == full);
      if (k == 0 || k == full) continue;
      auto before = sampler.batch(0, k - 1);
      for (size_t r = 0; r < batch.size(); ++r) EXPECT_EQ(batch[r], before[r] + 1);
    }
    auto order = epoch_of(sampler, 0);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(static_cast<int64_t>(order.size()), n);
    for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<int64_t>(i)) << "each sample once";
    error_of([&] { sampler.batch(0, sampler.steps_per_epoch()); }, Blame::run);
  }
  EXPECT_TRUE(BatchSampler(10, 2, 0).starts_anew(3));
  EXPECT_EQ(BatchSampler(3, 4, 0, false, SampleOrder::stream).batch(0, 0), (std::vector<int64_t>{0, 1, 2}));
  const BatchSampler dropping(10, 4, 0, true, SampleOrder::stream);
  EXPECT_EQ(dropping.steps_per_epoch(), 2);
  EXPECT_EQ(dropping.batch(0, 1), (std::vector<int64_t>{1, 3, 5, 7}));
}

TEST(BatchSampler, RefusesImpossibleSizes) {
  EXPECT_THAT(error_of([] { BatchSampler(0, 1, 0); }), HasSubstr("0 training samples"));
  EXPECT_THAT(error_of([] { BatchSampler(10, 0, 0); }), HasSubstr("batch: 0"));
  EXPECT_THAT(error_of([] { BatchSampler(10, 11, 0, true); }), HasSubstr("larger than the 10"));
}

}  // namespace
}  // namespace trireme
