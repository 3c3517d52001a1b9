// Moves the training state from the workers of one plan to the workers of another plan, between two steps and bit for
// bit. The workers' parts are assembled to full tensors, by name; each worker of the new plan takes its part of each
// tensor. During the migration the process holds weights and optimizer state twice.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "runtime/migrate/training_state.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/worker.h"
#include "trireme/communicator.h"

namespace trireme {

/// Adds a worker's errors to sums on the CPU, by shard. `sums`: empty before the first worker; its tensors may then be
/// that worker's own memory, for reading only.
void add_errors(const std::vector<FactorPiece>& pieces, std::vector<at::Tensor>& sums);

/// Shared by the workers of a run.
class StateGatherer {
 public:
  /// References outlive it.
  explicit StateGatherer(const Program& training) : program_(training) {}

  /// Every worker must call it, between two steps and with an empty pipeline (Worker::drain). Returns when all workers
  /// have contributed their part.
  void gather(int rank, Worker& worker, const ParameterStore& store);
  /// The same if every worker is a process: rank 0 of `world` gets the state; the other ranks send what rank 0 lacks
  /// and get nothing. Each contributor of a bucket passes the sum of PowerSGD's errors on to the one before it, so that
  /// no rank receives more than one copy. `states`: the number of state tensors of the optimizer
  /// (optimizer_state_count).
  void gather(Worker& worker, Communicator& world, Precision precision, int states);

  /// The same for a single worker that holds everything (runtime/whole_step.h), for a run whose other workers are lost.
  void gather_alone(Worker& worker);

  /// Returns the state. Call it after gather has returned on all workers.
  TrainingState take() { return std::exchange(state_, {}); }

  /// Lets the next gather write into the tensors of `old`, which must no longer be read. This saves the cost of new
  /// memory. Call it before the first worker calls gather.
  void reuse(TrainingState old);

 private:
  void add_bucket(BucketId id, const ParameterStore& store);
  void add_shards(const Bucket& bucket, const std::vector<at::Tensor>& flats);
  void add_factors(BucketId id, const ParameterStore& store);
  void add_factors(BucketId id, Worker& worker, Communicator& world);
  void put_factors(const Bucket& bucket, const std::vector<at::Tensor>& sums, const std::vector<at::Tensor>& factors);
  /// The shards of the bucket of which PowerSGD keeps something; none before the first update.
  std::vector<const ParameterShard*> factored(const Bucket& bucket) const;
  bool has_state(const Bucket& bucket) const { return state_.updates > 0 && !bucket.contributors.empty(); }
  at::Tensor& tensor_of(at::Tensor& full, const Shape& shape, const at::Tensor& like);
  void add(const HeldParts& held);
  void add(const std::vector<HeldPart>& parts, TensorMap& tensors);

  const Program& program_;
  /// Guards the maps in state_; workers write to disjoint regions of the tensors, or the same values.
  Mutex mutex_;
  TrainingState state_;
};

/// Returns the most bytes that any worker must receive when a run changes from plan `from` to plan `to`: weights
/// (master values) and `states` optimizer state tensors that it does not hold already. If either plan divides optimizer
/// state (zero1 to zero3), the result is an upper bound that assumes that no worker holds any. `was`: by rank of `to`
/// its rank under `from`, or -1 if it had none. An empty `was` means equal ranks.
int64_t bytes_to_move(const Program& from, const Program& to, int states, int64_t bytes_per_value,
                      const std::vector<int>& was = {});

}  // namespace trireme
