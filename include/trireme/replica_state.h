// A replica as an update policy sees it: what it may read and write between two steps.
//
// A replica is a group of workers that runs a plan on its own share of the samples, with weights of its own. What the
// policy sees of it is flat: the plan inside does not matter. All replicas of a run are cut in the same way; a bucket
// may also be a worker's slice of one.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme {

/// A batch norm's running statistics, both [channels], in whatever dtype the layer keeps them.
struct RunningStatistics {
  at::Tensor mean, variance;
};

/// Weights [rows, width] of which a step reads and changes only the rows that StepFacts::rows names: an embedding's.
struct RowTable {
  size_t bucket = 0;   ///< of ReplicaState::weights
  int64_t offset = 0;  ///< there, of row 0
  int64_t rows = 0, width = 0;
};

/// Tensors are the replica's own memory, shared with whoever made this: policies write in place, between two steps, on
/// the thread that calls them, and never replace a tensor. Contiguous, float or double.
struct ReplicaState {
  std::vector<at::Tensor> weights;               ///< master values, flat, by bucket: what ReplicaPiece::master holds
  std::vector<std::vector<at::Tensor>> moments;  ///< by bucket: the optimizer's state tensors, each as long as the
                                                 ///< bucket's weights; none where the optimizer has none (yet)
  std::vector<RunningStatistics> statistics;     ///< by batch norm
  std::vector<RowTable> tables = {};             ///< by bucket and offset; none unless UpdatePolicy::takes_rows
};

/// One step of a replica.
struct StepFacts {
  int64_t step = 0;                             ///< 0-based, of the replica's own steps
  int64_t samples = 0;                          ///< in it
  double learning_rate = 0;                     ///< that the local optimizer takes
  bool ends_epoch = false;                      ///< the replica has been through its share of the samples with it
  std::vector<std::vector<int64_t>> rows = {};  ///< by table of the state: which it reads, each once, in any order
};

/// What an evaluation uses: memory of its own, cut like the ReplicaState that it was asked with.
struct ModelValues {
  std::vector<at::Tensor> weights;
  std::vector<RunningStatistics> statistics;
};

ModelValues copy_of(const ModelValues& values);
/// Copies of the state's weights and running statistics.
ModelValues values_of(const ReplicaState& state);
/// Writes them into the state. Weights may be cut otherwise than the state's: elements count, in order.
void write_values(const ModelValues& values, ReplicaState& state);

}  // namespace trireme
