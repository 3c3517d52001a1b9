#include "data/sampler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/random.h"
#include "trireme/error.h"

namespace trireme {

std::vector<int64_t> sample_order(int64_t n, uint64_t seed, int64_t epoch) {
  return random_permutation(n, random_key(seed, "order/epoch/" + std::to_string(epoch)));
}

std::vector<int64_t> bucketed_order(const std::vector<int32_t>& lengths, int64_t batch, uint64_t seed, int64_t epoch) {
  const auto n = static_cast<int64_t>(lengths.size()), full = n / batch;
  const std::vector<int64_t> shuffled = sample_order(n, seed, epoch);
  std::vector<int64_t> sorted = shuffled;
  for (int64_t first = 0; first < full; first += kPoolBatches)
    std::stable_sort(
        sorted.begin() + first * batch, sorted.begin() + std::min(first + kPoolBatches, full) * batch,
        [&](int64_t a, int64_t b) { return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)]; });
  std::vector<int64_t> order;
  order.reserve(sorted.size());
  for (const int64_t k : random_permutation(full, random_key(seed, "bucket order/epoch/" + std::to_string(epoch))))
    order.insert(order.end(), sorted.begin() + k * batch, sorted.begin() + (k + 1) * batch);
  order.insert(order.end(), sorted.begin() + full * batch, sorted.end());
  return order;
}

BatchSampler::BatchSampler(int64_t n, int64_t batch, uint64_t seed, bool drop_last, SampleOrder order,
                           std::vector<int32_t> lengths)
    : n_(n), batch_(batch), seed_(seed), drop_last_(drop_last), order_(order), lengths_(std::move(lengths)) {
  check_internal(order != SampleOrder::bucketed || static_cast<int64_t>(lengths_.size()) == n,
                 "bucketed samples have lengths");
  if (n < 1)
    fail_user({.where = "data",
               .what = std::to_string(n) + " training samples",
               .why = "at least one is needed",
               .next = "check the data set and train_limit"});
  if (batch < 1)
    fail_user({.where = "batch",
               .what = std::to_string(batch),
               .why = "a batch holds at least one sample",
               .next = "set a positive number"});
  if (drop_last_ && batch > n)
    fail_user({.where = "batch",
               .what = std::to_string(batch),
               .why = "larger than the " + std::to_string(n) + " samples, and short batches are left out",
               .next = "set a batch of at most the number of samples"});
}

int64_t BatchSampler::steps_per_epoch() const { return drop_last_ ? n_ / batch_ : (n_ + batch_ - 1) / batch_; }

int64_t BatchSampler::batch_size_at(int64_t k) const {
  check_internal(k >= 0 && k < steps_per_epoch(), "a step lies inside its epoch");
  return std::min(batch_, n_ - k * batch_);
}

std::vector<int64_t> BatchSampler::batch(int64_t epoch, int64_t k) const {
  const int64_t size = batch_size_at(k);
  if (order_ == SampleOrder::stream) {
    const int64_t full = n_ / batch_;
    std::vector<int64_t> indices;
    indices.reserve(static_cast<size_t>(size));
    for (int64_t row = 0; row < size; ++row) indices.push_back(k < full ? row * full + k : full * batch_ + row);
    return indices;
  }
  Order all = order_of(epoch);
  auto first = all->begin() + k * batch_;
  return {first, first + size};
}

BatchSampler::Order BatchSampler::order_of(int64_t epoch) const {
  check_internal(epoch >= 0, "epochs count from 0");
  MutexLock lock(mutex_);
  Kept& kept = kept_[static_cast<size_t>(epoch % 2)];
  if (kept.epoch != epoch || !kept.order)
    kept = {epoch, std::make_shared<const std::vector<int64_t>>(order_ == SampleOrder::bucketed
                                                                    ? bucketed_order(lengths_, batch_, seed_, epoch)
                                                                    : sample_order(n_, seed_, epoch))};
  return kept.order;
}

}  // namespace trireme
