// Batches loaded ahead: their content does not depend on the loading thread, errors reach the workers, and no thread is
// left behind.
#include "experiment/loader.h"

#include <ATen/ATen.h>

#include <map>
#include <set>

#include "../base/expect_error.h"
#include "base/memory.h"
#include "base/random.h"
#include "support/strict_device.h"

namespace trireme {
namespace {

/// Samples that encode their index and draw. They can be slow or broken. Counts the loaded samples and the threads.
class Recorded final : public Dataset {
 public:
  int64_t size() const override { return 1000; }
  Shape sample_shape() const override { return {3, 2, 2}; }
  int64_t classes() const override { return 1000; }
  Samples get(std::span<const int64_t> indices, const Draw& draw) const override {
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
    const auto n = int64_t(indices.size());
    Samples samples{at::empty({n, 3, 2, 2}, at::TensorOptions().memory_format(at::MemoryFormat::ChannelsLast)),
                    at::empty({n}, at::kLong)};
    for (int64_t i = 0; i < n; ++i) {
      if (indices[size_t(i)] == broken) throw std::runtime_error("sample is broken");
      const Philox random(random_key(draw.seed, "epoch/" + std::to_string(draw.epoch)));
      samples.data[i].fill_(random.normal(uint64_t(indices[size_t(i)])));
      samples.target.data_ptr<int64_t>()[i] = indices[size_t(i)];
    }
    loaded += n;
    std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
    return samples;
  }

  std::chrono::milliseconds pause{0};
  int64_t broken = -1;
  mutable std::atomic<int64_t> loaded{0};
  mutable std::mutex mutex;
  mutable std::set<std::thread::id> threads;
};

constexpr int64_t kBatches = 12, kBatch = 41;  // not a multiple of the samples that a thread loads at once

class Loading : public ::testing::Test {
 protected:
  std::function<std::optional<PlannedBatch>()> plan() {
    return [this, k = int64_t{0}]() mutable -> std::optional<PlannedBatch> {
      if (k == kBatches) return std::nullopt;
      std::vector<int64_t> indices = random_permutation(1000, uint64_t(k));
      indices.resize(size_t(k + 1 == kBatches ? 5 : kBatch));
      return PlannedBatch{set, std::move(indices), {7, k++ / 5, true}};
    };
  }
  static std::string never() { return ""; }

  /// All batches that a worker gets, each in three parts.
  static std::vector<at::Tensor> read_all(Loader& loader, int reader) {
    std::vector<at::Tensor> all;
    for (int64_t k = 0; k < kBatches; ++k) {
      const Batch batch = loader.take(reader);
      for (int part = 0; part < 3; ++part)
        for (at::Tensor& tensor : batch.load(share_of(batch.samples, 3, part))) all.push_back(tensor);
    }
    return all;
  }

  const std::shared_ptr<Recorded> set = std::make_shared<Recorded>();
};

TEST_F(Loading, BatchesDoNotDependOnTheLoadingThread) {
  Loader direct(plan(), {.threads = 0}, never);
  const std::vector<at::Tensor> expected = read_all(direct, 0);
  EXPECT_EQ(set->threads, std::set{std::this_thread::get_id()});
  for (int threads : {1, 2, 5}) {
    set->threads.clear();
    Loader loader(plan(), {.threads = threads}, never);
    const std::vector<at::Tensor> actual = read_all(loader, 0);
    EXPECT_FALSE(set->threads.contains(std::this_thread::get_id())) << "the worker only waits";
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
      EXPECT_EQ(actual[i].strides(), expected[i].strides()) << i;
    }
  }
}

TEST_F(Loading, ServesWorkersThatAreFarApart) {
  for (int threads : {0, 2}) {
    Loader loader(plan(), {.threads = threads, .readers = 3, .ahead_bytes = 1}, never);
    const auto first = read_all(loader, 0), second = read_all(loader, 1), third = read_all(loader, 2);
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(at::equal(first[i], second[i]) && at::equal(first[i], third[i])) << i;
  }
}

TEST_F(Loading, ServesWorkersAtTheSameTime) {
  set->pause = std::chrono::milliseconds(1);
  Loader loader(plan(), {.threads = 2, .readers = 4}, never);
  std::vector<std::vector<at::Tensor>> seen(4);
  std::vector<std::thread> workers;
  for (int r = 0; r < 4; ++r) workers.emplace_back([&, r] { seen[size_t(r)] = read_all(loader, r); });
  for (std::thread& worker : workers) worker.join();
  for (int r = 1; r < 4; ++r)
    for (size_t i = 0; i < seen[0].size(); ++i) EXPECT_TRUE(at::equal(seen[0][i], seen[size_t(r)][i]));
}

TEST_F(Loading, ReadsEverySampleOnce) {
  Loader loader(plan(), {.threads = 3, .readers = 2}, never);
  read_all(loader, 0);
  read_all(loader, 1);
  EXPECT_EQ(set->loaded, (kBatches - 1) * kBatch + 5);
}

/// Waits until `expected` samples are loaded, then a moment longer to see whether more follow.
int64_t settled(const std::atomic<int64_t>& count, int64_t expected) {
  for (int i = 0; i < 2000 && count < expected; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return count;
}

TEST_F(Loading, IsAheadByAsMuchAsMemoryAllows) {
  constexpr int64_t kSampleBytes = 3 * 2 * 2 * 4 + 8, kAll = (kBatches - 1) * kBatch + 5;
  for (const auto& [bytes, batches] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3 * kBatch * kSampleBytes, 3}, {1 << 20, kBatches}}) {
    set->loaded = 0;
    Loader loader(plan(), {.threads = 2, .ahead_bytes = bytes}, never);
    int64_t expected = std::min(kAll, batches * kBatch);
    EXPECT_EQ(settled(set->loaded, expected), expected) << bytes;
    loader.take(0).load({0, 1});
    expected = std::min(kAll, (batches + 1) * kBatch);
    EXPECT_EQ(settled(set->loaded, expected), expected) << "one more for the one that was taken";
  }
}

TEST_F(Loading, WhatCannotBeLoadedEndsTheRunWithItsMessage) {
  set->broken = random_permutation(1000, 3)[20];  // an index of the fourth batch
  for (int threads : {0, 1, 3}) {
    Loader loader(plan(), {.threads = threads, .readers = 2}, never);
    for (int reader : {0, 1}) {
      try {
        read_all(loader, reader);
        ADD_FAILURE() << "a broken sample was read";
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "sample is broken");
      }
    }
  }
}

TEST_F(Loading, APlanThatFailsEndsTheRunToo) {
  const auto failing = [this, k = 0]() mutable -> std::optional<PlannedBatch> {
    if (k++ == 2) throw std::runtime_error("no order");
    return PlannedBatch{set, {1, 2, 3}};
  };
  for (int threads : {0, 2}) {
    Loader loader(failing, {.threads = threads}, never);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(loader.take(0).load({0, 3})[1].size(0), 3);
    EXPECT_THROW(loader.take(0), std::runtime_error);
  }
}

TEST_F(Loading, WaitingEndsWhenTheRunDoes) {
  set->pause = std::chrono::milliseconds(300);
  std::atomic<bool> stopped{false};
  Loader loader(plan(), {.threads = 1}, [&] { return stopped ? std::string("interrupted") : ""; });
  std::thread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stopped = true;
  });
  const Batch batch = loader.take(0);
  expect_error(Blame::run, {"waiting for data", "interrupted"}, [&] { batch.load({0, kBatch}); });
  user.join();
}

TEST_F(Loading, StopsInTheMiddle) {
  set->pause = std::chrono::milliseconds(5);
  Loader loader(plan(), {.threads = 3}, never);
  loader.take(0).load({0, 1});
  loader.stop();
  const int64_t loaded = set->loaded;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(set->loaded, loaded) << "no thread is left";
}

TEST_F(Loading, CountsTheTimeSpentInLoad) {
  set->pause = std::chrono::milliseconds(200);
  for (int threads : {0, 1}) {
    Loader loader(plan(), {.threads = threads, .readers = 2}, never);
    loader.take(0).load({0, 3});
    EXPECT_GE(loader.take_load_seconds(0), 0.1);
    EXPECT_EQ(loader.take_load_seconds(0), 0);
    EXPECT_EQ(loader.take_load_seconds(1), 0);
  }
}

TEST_F(Loading, SamplesAreChargedToTheWorkerThatReadsThem) {
  install_memory_accounting();
  for (int threads : {0, 1}) {
    Loader loader(plan(), {.threads = threads}, never);
    const Batch batch = loader.take(0);
    DeviceScope device(3);
    const int64_t before = memory_use(3).total();
    auto tensors = batch.load({0, 10});
    EXPECT_GE(memory_use(3).total() - before, 10 * (3 * 2 * 2 * 4 + 8));
    tensors[0].zero_();  // changes only this worker's copy
    EXPECT_NE(batch.load({0, 10})[0].abs().sum().item<double>(), 0);
  }
}

/// The third batch is the first whose requests are known when the batch before it is taken.
TEST_F(Loading, TheNextBatchIsCopiedToTheDeviceOfItsWorker) {
  Loader direct(plan(), {.threads = 0}, never);
  const std::vector<at::Tensor> expected = read_all(direct, 0);
  test::install_strict_device();
  const PlacedDevices placed(0, {test::strict_device(0), test::strict_device(1)});
  for (const int threads : {0, 2}) {
    Loader loader(plan(), {.threads = threads, .readers = 2, .devices = {0, 1}}, never);
    for (const int reader : {0, 1}) {
      const DeviceScope worker(reader);
      const std::vector<at::Tensor> actual = read_all(loader, reader);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        const bool copied = i / 6 >= 2 && i / 6 + 1 < size_t(kBatches);  // the last batch is smaller: of another kind
        EXPECT_EQ(actual[i].device(), copied ? test::strict_device(reader) : c10::Device(at::kCPU)) << i;
        EXPECT_TRUE(at::equal(actual[i].to(at::kCPU), expected[i])) << i;
      }
    }
  }
}

TEST_F(Loading, ARangeThatWasNotCopiedIsLoaded) {
  Loader loader(plan(), {.threads = 2, .devices = {0}}, never);
  for (int64_t k = 0; k < kBatches - 1; ++k) {
    const Range range = k == 5 ? Range{3, 9} : Range{10, 20};
    const auto indices = loader.take(0).load(range).at(1);
    EXPECT_EQ(indices.size(0), range.size());
    for (int64_t i = 0; i < range.size(); ++i)
      EXPECT_EQ(indices[i].item<int64_t>(), random_permutation(1000, uint64_t(k))[size_t(range.begin + i)]);
  }
}

TEST_F(Loading, WhatCannotBeCopiedAheadEndsTheRunAtItsBatch) {
  set->broken = random_permutation(1000, 3)[20];  // an index of the fourth batch
  for (const int threads : {0, 2}) {
    Loader loader(plan(), {.threads = threads, .devices = {0}}, never);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(loader.take(0).load({0, kBatch})[1].size(0), kBatch) << k;
    EXPECT_THROW(loader.take(0).load({0, kBatch}), std::runtime_error);
  }
}

TEST_F(Loading, StopsWhileItCopiesAhead) {
  set->pause = std::chrono::milliseconds(50);
  Loader loader(plan(), {.threads = 1, .ahead_bytes = 1, .devices = {0}}, never);
  for (int k = 0; k < 3; ++k) loader.take(0).load({0, kBatch});
  loader.stop();
}

/// A process of several reads a part of each batch; here the middle.
TEST_F(Loading, OnlyNeededBatchesAreLoadedAhead) {
  const auto wanted = [](int64_t samples) { return std::vector<Range>{{samples / 2, samples / 2 + 1}}; };
  Loader loader(plan(), {.threads = 2, .readers = 1, .wanted = wanted}, never);
  int64_t most = 0;
  for (int64_t k = 0; k < kBatches; ++k) {
    const Batch batch = loader.take(0);
    most += std::min<int64_t>(16, batch.samples);
    const std::vector<at::Tensor> got = batch.load({batch.samples / 2, batch.samples / 2 + 1});
    EXPECT_EQ(got.at(1).numel(), 1);
  }
  EXPECT_LE(set->loaded, most) << "a piece of each batch, not all of it";
}

}  // namespace
}  // namespace trireme
