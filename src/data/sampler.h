// The order in which training uses the samples. It depends on seed and epoch only: every worker derives the same global
// batches and takes its share of each.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"

namespace trireme {

/// Returns a permutation of 0..n-1, different in each epoch.
std::vector<int64_t> sample_order(int64_t n, uint64_t seed, int64_t epoch);

/// - shuffled: another permutation in each epoch.
/// - stream: for samples that continue each other. The samples are cut into `batch` rows of equal length. Step k takes
///   the k-th sample of every row, so row r of one batch continues in row r of the next. The n % batch samples that are
///   left at the end are one more, short batch, whose rows continue nothing. The order is the same in all epochs.
/// - bucketed: shuffled, but a batch holds samples of similar length, see bucketed_order.
enum class SampleOrder { shuffled, stream, bucketed };

/// Number of batches of one bucketed pool. With more, lengths within a batch are closer; with fewer, batches are more
/// random.
constexpr int64_t kPoolBatches = 50;

/// Returns a permutation of 0..n-1 for samples of `lengths`, different in each epoch. The epoch's shuffled order is cut
/// into pools of kPoolBatches * batch samples. Each pool is sorted by length and cut into batches; the batches of all
/// pools are shuffled. The n % batch samples of a short last batch come from the end of the shuffled order and are not
/// sorted. Depends on its arguments only. (Like the bucket iterator of torchtext and others.)
std::vector<int64_t> bucketed_order(const std::vector<int32_t>& lengths, int64_t batch, uint64_t seed, int64_t epoch);

/// Cuts an epoch's order into global batches. Thread-safe; one sampler may serve all workers.
class BatchSampler {
 public:
  /// The last batch of an epoch is short when `batch` does not divide `n`, or left out with `drop_last`. `lengths`: of
  /// the n samples, for bucketed order only. User errors: n or batch below 1; a batch larger than n where short batches
  /// are left out (no step would remain).
  BatchSampler(int64_t n, int64_t batch, uint64_t seed, bool drop_last = false,
               SampleOrder order = SampleOrder::shuffled, std::vector<int32_t> lengths = {});

  int64_t size() const { return n_; }
  int64_t steps_per_epoch() const;
  int64_t samples_per_epoch() const { return drop_last_ ? steps_per_epoch() * batch_ : n_; }
  /// True if the rows of step `k` do not continue those of the step before: state carried from earlier steps must be
  /// reset.
  bool starts_anew(int64_t k) const { return order_ != SampleOrder::stream || k == 0 || k == n_ / batch_; }

  /// Samples of step `k` of `epoch`; k is in [0, steps_per_epoch()).
  int64_t batch_size_at(int64_t k) const;
  std::vector<int64_t> batch(int64_t epoch, int64_t k) const;

 private:
  using Order = std::shared_ptr<const std::vector<int64_t>>;
  Order order_of(int64_t epoch) const;

  int64_t n_;
  int64_t batch_;
  uint64_t seed_;
  bool drop_last_;
  SampleOrder order_;
  std::vector<int32_t> lengths_;

  struct Kept {
    int64_t epoch = -1;
    Order order;
  };
  mutable Mutex mutex_;
  /// By epoch parity, because workers are at most one epoch apart.
  mutable std::array<Kept, 2> kept_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
