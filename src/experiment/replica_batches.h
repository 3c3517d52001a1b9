// Determines on which samples a replica trains, and in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "experiment/batches.h"
#include "experiment/replica_spec.h"
#include "experiment/run_spec.h"

namespace trireme {

/// Returns the samples of each replica, ascending. Every sample belongs to one replica; no replica is without samples.
/// Depends on the arguments only. Errors (user): shares by label if targets are not labels; fewer samples than
/// replicas; shares by Dirichlet that leave a replica without samples.
std::vector<std::vector<int64_t>> divide_samples(const Dataset& set, const ReplicaSpec& spec, int replicas,
                                                 uint64_t seed);

/// Batches of all replicas. Thread-safe.
class ReplicaBatches {
 public:
  /// The arguments must outlive this object. A replica's batch is the experiment's divided by the number of replicas.
  /// `equal_steps`: all replicas make the same number of steps in an epoch, for policies that synchronize the replicas
  /// after steps. The number is what the replica with the most samples needs; a replica with fewer samples continues
  /// with its next order. Errors (user): a batch with less than one sample per replica; those of divide_samples;
  /// streams and padding by batch, with shares other than SampleShares::batches or with RunSpec::own_data; features of
  /// token ids, or with RunSpec::own_data.
  ReplicaBatches(const RunSpec& experiment, const TaskData& data, int replicas, bool equal_steps);

  /// Returns the batch of 0-based step `step` of the replica; never empty.
  PlannedBatch training(int replica, int64_t step) const;
  /// Returns batch `k` of an evaluation of the replica's own model. Under SampleShares::features the samples have the
  /// replica's noise; otherwise it is that of whole().
  PlannedBatch evaluation(int replica, int64_t k) const;
  int64_t samples_in(int replica, int64_t step) const;
  /// Returns the batches of all replicas at that step, one after the other, as one batch. Cutting it into equal parts
  /// gives the replicas' batches again. Requires that all replicas make equally many steps.
  PlannedBatch together(int64_t step) const;
  int64_t samples_together(int64_t step) const;
  int64_t steps_per_epoch(int replica) const;
  int64_t samples_per_epoch() const;  ///< samples of all replicas
  /// Samples of an epoch's last batch, where it has fewer than there are replicas: they are not trained on.
  int64_t left_out_of_epoch() const;
  int replicas() const { return replicas_; }
  /// True if the step is the first of an epoch of a stream.
  bool starts_stream(int64_t step) const;

  const Batches& whole() const { return whole_; }

 private:
  void add_noise();
  bool by_batch() const { return own_.empty(); }
  const std::vector<int64_t>& own(int replica) const { return own_[own_.size() == 1 ? 0 : size_t(replica)]; }
  void check_can_be_divided(const std::string& how) const;
  int64_t whole_step(int64_t step) const;
  std::shared_ptr<const std::vector<int64_t>> order_of(int replica, int64_t epoch) const;

  const RunSpec& experiment_;
  const TaskData& data_;
  const int replicas_;
  const Batches whole_;
  /// Steps of an epoch, without a short batch that has fewer samples than there are replicas.
  int64_t whole_steps_ = 0;
  int64_t batch_ = 1;  ///< batch of a replica with its own samples
  /// Steps of an epoch of every replica with its own samples. 0: each replica's number depends on its samples.
  int64_t equal_steps_ = 0;
  /// Each replica's own samples; one entry: all replicas use it. Empty: replicas take parts of the whole batches.
  std::vector<std::vector<int64_t>> own_;
  std::shared_ptr<const Dataset> train_;               ///< with noise under SampleShares::features
  std::vector<std::shared_ptr<const Dataset>> tests_;  ///< by replica, with its noise; empty: without

  struct Kept {
    int64_t epoch = -1;
    std::shared_ptr<const std::vector<int64_t>> order;
  };
  mutable Mutex mutex_;
  mutable std::vector<Kept> kept_ TRIREME_GUARDED_BY(mutex_);  ///< by replica
};

}  // namespace trireme
