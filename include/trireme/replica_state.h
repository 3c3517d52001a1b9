// The part of a replica that an update policy may read and write between two steps.
//
// A replica is a group of workers that runs a plan on its own share of the samples, with weights of its own. A policy
// sees flat tensors; the plan inside does not matter. All replicas of a run are cut in the same way. A bucket may also
// be a worker's slice of a bucket.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme {

/// A batch norm's running statistics, both [channels], in the dtype in which the layer keeps them.
struct RunningStatistics {
  at::Tensor mean, variance;
};

/// Weights [rows, width], for example of an embedding, of which a step reads and changes only the rows in
/// StepFacts::rows.
struct RowTable {
  size_t bucket = 0;   ///< index in ReplicaState::weights
  int64_t offset = 0;  ///< position of row 0 in the bucket
  int64_t rows = 0, width = 0;
};

/// Tensors are the replica's own memory, shared with the creator of this object. Policies write in place, between two
/// steps, on the thread that calls them, and never replace a tensor. Contiguous, float or double.
struct ReplicaState {
  /// master values, flat, by bucket: the contents of ReplicaPiece::master
  std::vector<at::Tensor> weights;
  /// by bucket: the optimizer's state tensors, each as long as the bucket's weights; none if the optimizer has none
  /// (yet)
  std::vector<std::vector<at::Tensor>> moments;
  std::vector<RunningStatistics> statistics;  ///< by batch norm
  std::vector<RowTable> tables = {};          ///< sorted by bucket and offset; none unless UpdatePolicy::takes_rows
};

/// One step of a replica.
struct StepFacts {
  int64_t step = 0;          ///< 0-based number among the replica's own steps
  int64_t samples = 0;       ///< number of samples in the step
  double learning_rate = 0;  ///< the local optimizer's learning rate in the step
  /// with this step the replica completes a pass over its share of the samples
  bool ends_epoch = false;
  /// by table of the state: the rows that the step reads, each once, in any order
  std::vector<std::vector<int64_t>> rows = {};
};

/// The values for an evaluation: memory of its own, cut like the ReplicaState that was passed.
struct ModelValues {
  std::vector<at::Tensor> weights;
  std::vector<RunningStatistics> statistics;
};

ModelValues copy_of(const ModelValues& values);
/// Returns copies of the state's weights and running statistics.
ModelValues values_of(const ReplicaState& state);
/// Writes the values into the state. Weights may be cut differently from the state's; only the order of elements
/// matters.
void write_values(const ModelValues& values, ReplicaState& state);

}  // namespace trireme
