// Moves what a run carries from step to step from the workers of one plan to those of another, between two steps and bit for bit: what
// they hold is put together to full tensors, by name, and whoever goes on takes its part of each. While that happens the process holds
// weights and optimizer state twice.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "model/weights/tensor_map.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/worker.h"

namespace trireme {

/// A run between two steps; nothing in it depends on a plan. Tensors have the model's shapes and are charged to no device.
struct TrainingState {
  int64_t updates = 0;                                       ///< steps of the optimizer
  TensorMap weights;                                         ///< master values of all parameters, also of frozen ones
  std::map<std::string, std::vector<at::Tensor>> optimizer;  ///< by parameter: its state tensors, averaged weights the last of them; none
                                                             ///< before the first update and of frozen parameters
  TensorMap buffers;            ///< running statistics, of the data axis' first worker: those that an evaluation would use
  TensorMap averaged_buffers;   ///< their averages, where the optimizer averages weights
  TensorMap carried;            ///< what stateful layers carry, by "<layer>/<state>": a row for each of the global batch

  /// Of a run whose replicas agree; the rest of the state is then the first replica's. Tensors by "replica/1/weights/NAME" (as the maps above),
  /// "policy/shared/NAME", "policy/0/NAME"; texts by "shared", "0", "1" (update/policy_state.h).
  TensorMap agreement;
  std::map<std::string, std::string> agreement_texts;

  int64_t bytes() const;
};

/// A region of a full tensor that one worker holds.
struct HeldPart {
  std::string name;
  Shape shape;        ///< of the full tensor
  Box box;
  at::Tensor values;  ///< the worker's own memory
};

/// What a worker holds besides its replicas.
struct HeldParts {
  std::vector<HeldPart> buffers, averaged_buffers, carried;
};

/// Shared by the workers of a run.
class StateGatherer {
 public:
  /// References outlive it.
  explicit StateGatherer(const Program& training) : program_(training) {}

  /// Every worker calls it, between two steps and with an empty pipeline (Worker::drain); it returns when all have given their part.
  /// Errors (run): PowerSGD, whose rests belong to workers and not to parameters.
  void gather(int rank, Worker& worker, const ParameterStore& store);
  /// The same where every worker is a process: rank 0 of `world` gets the state, the others give what it lacks and have none. `states`: tensors
  /// of the optimizer (optimizer_state_count).
  void gather(Worker& worker, Communicator& world, Precision precision, int states);

  /// The same of a worker alone that holds everything (runtime/whole_step.h), for a run that the others have left.
  void gather_alone(Worker& worker);

  /// After gather has returned on all workers.
  TrainingState take() { return std::exchange(state_, {}); }

  /// The next gathering may write into the tensors of a state that nobody reads any more: fresh memory costs more than what is written
  /// to it. Before the first worker calls gather.
  void reuse(TrainingState old);

 private:
  void add_bucket(BucketId id, const ParameterStore& store);
  void add_shards(const Bucket& bucket, const std::vector<at::Tensor>& flats);
  bool has_state(const Bucket& bucket) const { return state_.updates > 0 && !bucket.contributors.empty(); }
  at::Tensor& tensor_of(at::Tensor& full, const Shape& shape, const at::Tensor& like);
  void add(const HeldParts& held);
  void add(const std::vector<HeldPart>& parts, TensorMap& tensors);

  const Program& program_;
  std::mutex mutex_;     ///< of the maps in state_; workers write to disjoint regions of the tensors, or the same values
  TrainingState state_;
};

/// Writes the state's weights and optimizer state in place of what the replicas of `rank` hold; they have resumed. Of shared replicas each
/// shard of the weights is written by one worker. Between barriers.
void give_state(const Program& program, int rank, const TrainingState& state, Replicas& replicas);

/// Bytes that the worker which lacks most has to be sent when a run goes over: of its weights (master values), and of `states` optimizer
/// state tensors, what it does not hold already. Where either plan divides state (zero1 to zero3) an upper bound: as if nobody held any.
/// `was`: by rank of `to` its rank under `from`, -1: it had none. Empty: the same one.
int64_t bytes_to_move(const Program& from, const Program& to, int states, int64_t bytes_per_value, const std::vector<int>& was = {});

/// Errors (run): see StateGatherer::gather.
void check_migrates(const Program& program);

}  // namespace trireme
