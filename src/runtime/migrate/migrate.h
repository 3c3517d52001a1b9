// Moves what a run carries from step to step from the workers of one plan to those of another, between two steps and
// bit for bit: what they hold is put together to full tensors, by name, and whoever goes on takes its part of each.
// While that happens the process holds weights and optimizer state twice.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "comm/communicator.h"
#include "runtime/migrate/training_state.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/worker.h"

namespace trireme {

/// Shared by the workers of a run.
class StateGatherer {
 public:
  /// References outlive it.
  explicit StateGatherer(const Program& training) : program_(training) {}

  /// Every worker calls it, between two steps and with an empty pipeline (Worker::drain); it returns when all have
  /// given their part. Errors (run): PowerSGD, whose rests belong to workers and not to parameters.
  void gather(int rank, Worker& worker, const ParameterStore& store);
  /// The same where every worker is a process: rank 0 of `world` gets the state, the others give what it lacks and have
  /// none. `states`: tensors of the optimizer (optimizer_state_count).
  void gather(Worker& worker, Communicator& world, Precision precision, int states);

  /// The same of a worker alone that holds everything (runtime/whole_step.h), for a run that the others have left.
  void gather_alone(Worker& worker);

  /// After gather has returned on all workers.
  TrainingState take() { return std::exchange(state_, {}); }

  /// The next gathering may write into the tensors of a state that is not read any more: fresh memory costs more than
  /// what is written to it. Before the first worker calls gather.
  void reuse(TrainingState old);

 private:
  void add_bucket(BucketId id, const ParameterStore& store);
  void add_shards(const Bucket& bucket, const std::vector<at::Tensor>& flats);
  bool has_state(const Bucket& bucket) const { return state_.updates > 0 && !bucket.contributors.empty(); }
  at::Tensor& tensor_of(at::Tensor& full, const Shape& shape, const at::Tensor& like);
  void add(const HeldParts& held);
  void add(const std::vector<HeldPart>& parts, TensorMap& tensors);

  const Program& program_;
  Mutex mutex_;  ///< of the maps in state_; workers write to disjoint regions of the tensors, or the same values
  TrainingState state_;
};

/// Bytes that the worker which lacks most has to be sent when a run goes over: of its weights (master values), and of
/// `states` optimizer state tensors, what it does not hold already. Where either plan divides state (zero1 to zero3) an
/// upper bound: as if no worker held any. `was`: by rank of `to` its rank under `from`, -1: it had none. Empty: the
/// same one.
int64_t bytes_to_move(const Program& from, const Program& to, int states, int64_t bytes_per_value,
                      const std::vector<int>& was = {});

}  // namespace trireme
