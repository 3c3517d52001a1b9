// The whole weights of a run, put together from what its workers hold.
#pragma once

#include <string>

#include "base/mutex.h"
#include "experiment/experiment.h"
#include "model/weights/tensor_map.h"
#include "runtime/worker.h"

namespace trireme {

/// Bytes of weights that a run saves where the experiment does not say whether to: 2 s of a core, and as much memory
/// once more.
inline constexpr int64_t kLargestSavedUnasked = int64_t{1} << 30;

/// Under this key a file's metadata say what the model is made from (zoo/spec_text.h).
inline constexpr const char* kModelKey = "trireme.model";

/// Shared by the workers of a run.
class TrainedWeights {
 public:
  /// References outlive it.
  TrainedWeights(const Program& training, const Model& model) : program_(training), model_(model) {}

  /// Every worker calls it, between two steps and with an empty pipeline (Worker::drain); it returns when the weights
  /// are whole. Parameters are the newest master weights, or their averages where the optimizer keeps any; running
  /// statistics those of the data axis' first worker: what an evaluation would use. Where memory does not suffice there
  /// are none, and failure() says so.
  void gather(int rank, Worker& worker, const ParameterStore& store);
  /// The same where every worker is a process: rank 0 of `world` gets the weights, the others give what it lacks and
  /// have none.
  void gather(Worker& worker, Communicator& world, Precision precision);

  /// Parameters and buffers by name in the model's shapes, float32 (float64 under fp64), charged to no device; empty
  /// until gathered by all workers.
  const TensorMap& tensors() const { return is_whole_ ? tensors_ : none_; }
  /// Why there are none though all workers gathered; else "".
  const std::string& failure() const { return failure_; }

 private:
  void add_parameters(const ParameterStore& store);
  void add_buffers(int rank, const Worker& worker);
  void collect_parameters(BucketId id, Worker& worker, Communicator& world, Precision precision);
  void collect_buffers(Worker& worker, Communicator& world);

  const Program& program_;
  const Model& model_;
  const TensorMap none_;
  Mutex mutex_;
  TensorMap tensors_;    // guarded by mutex_ while workers gather
  std::string failure_;  // guarded by mutex_ while workers gather
  bool is_whole_ = false;
};

/// Bytes of all weights that a run under `precision` would save.
int64_t bytes_of_weights(const Model& model, Precision precision);

/// The weights as files hold them: PyTorch's names and shapes, with metadata that say which model it is where the zoo
/// has it.
Weights weights_for_file(const std::optional<ModelSpec>& spec, const Model& model, const TensorMap& weights);

}  // namespace trireme
