// Which samples a replica trains on, and in which order.
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

/// The samples of each replica, ascending. Every sample is in one of them; none is empty. A function of its arguments.
/// Errors (user): shares by label of targets that are none; fewer samples than replicas; dirichlet shares that leave a
/// replica without any.
std::vector<std::vector<int64_t>> divide_samples(const Dataset& set, const ReplicaSpec& spec, int replicas,
                                                 uint64_t seed);

/// Batches of all replicas. Thread-safe.
class ReplicaBatches {
 public:
  /// Arguments outlive it. A replica's batch is the experiment's divided by the replicas. `equal_steps`: of an epoch,
  /// for policies whose replicas meet after steps: as many as who has most samples needs; who has fewer goes on with
  /// its next order. Errors (user): a batch of less than one sample for each; those of divide_samples; streams and
  /// padding by batch with other shares than SampleShares::batches, or with RunSpec::own_data.
  ReplicaBatches(const RunSpec& experiment, const TaskData& data, int replicas, bool equal_steps);

  /// Of 0-based step `step` of the replica; never empty.
  PlannedBatch training(int replica, int64_t step) const;
  int64_t samples_in(int replica, int64_t step) const;
  /// The batches of all replicas at that step, one after the other: a batch of all, which an equal cut gives back. For
  /// replicas that make equally many steps.
  PlannedBatch together(int64_t step) const;
  int64_t samples_together(int64_t step) const;
  int64_t steps_per_epoch(int replica) const;
  int64_t samples_per_epoch() const;  ///< of all replicas
  /// Whether the step is the first of an epoch of a stream.
  bool starts_stream(int64_t step) const;

  const Batches& whole() const { return whole_; }

 private:
  bool by_batch() const { return own_.empty(); }
  const std::vector<int64_t>& own(int replica) const { return own_[own_.size() == 1 ? 0 : size_t(replica)]; }
  void check_can_be_divided(const std::string& how) const;
  int64_t whole_step(int64_t step) const;
  std::shared_ptr<const std::vector<int64_t>> order_of(int replica, int64_t epoch) const;

  const RunSpec& experiment_;
  const TaskData& data_;
  const int replicas_;
  const Batches whole_;
  int64_t whole_steps_ = 0;  ///< of an epoch, without a short batch that has not a sample for every replica
  int64_t batch_ = 1;        ///< of a replica with samples of its own
  int64_t equal_steps_ =
      0;  ///< of an epoch of every replica with samples of its own; 0: as many as its own samples make
  std::vector<std::vector<int64_t>>
      own_;  ///< by replica, or one for all that are there; empty: parts of the whole batches

  struct Kept {
    int64_t epoch = -1;
    std::shared_ptr<const std::vector<int64_t>> order;
  };
  mutable Mutex mutex_;
  mutable std::vector<Kept> kept_ TRIREME_GUARDED_BY(mutex_);  ///< by replica
};

}  // namespace trireme
