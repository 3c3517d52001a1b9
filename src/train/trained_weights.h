// The whole weights of a run, put together from what its workers hold.
#pragma once

#include <mutex>

#include "model/weights/tensor_map.h"
#include "runtime/worker.h"

namespace trireme {

/// Shared by the workers of a run.
class TrainedWeights {
 public:
  /// References outlive it.
  TrainedWeights(const Program& training, const Model& model) : program_(training), model_(model) {}

  /// Every worker calls it, between two steps and with an empty pipeline (Worker::drain); it returns when the weights are whole.
  /// Parameters are the newest master weights, or their averages where the optimizer keeps any; running statistics those of the data
  /// axis' first worker: what an evaluation would use.
  void gather(int rank, Worker& worker, const ParameterStore& store);

  /// Parameters and buffers by name, float32 (float64 under fp64), charged to no device; empty until gathered.
  const TensorMap& tensors() const { return tensors_; }

 private:
  void add_parameters(const ParameterStore& store);
  void add_buffers(int rank, const Worker& worker);

  const Program& program_;
  const Model& model_;
  std::mutex mutex_;
  TensorMap tensors_;  // guarded by mutex_ while workers gather
};

}  // namespace trireme
