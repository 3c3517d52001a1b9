// A replica's weights, moments and running statistics as an update policy sees them, cut along what its workers hold.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "runtime/row_set.h"
#include "trireme/model.h"
#include "trireme/replica_state.h"

namespace trireme {

/// Positions of buffers that are a running mean and its variance, by their names.
std::vector<std::pair<size_t, size_t>> statistics_places(const std::vector<BufferSpec>& specs);
/// Those buffers.
std::vector<RunningStatistics> running_statistics(const std::vector<BufferSpec>& specs,
                                                  const std::vector<at::Tensor>& buffers);

/// Shared by the workers of one replica, threads of one process. They share one copy of the weights, or each has its
/// own (Program::private_replicas): then each holder of a bucket has the master values and moments of its own slice,
/// and no other holder has those moments (optimizer sharding). Every worker shows what it holds; then, while no step is
/// running, the first one reads and writes the state on behalf of all. Not thread-safe beyond that: barriers separate
/// the two.
class ReplicaView {
 public:
  /// Arguments outlive it. The program is one that agrees (Program::agrees), or an evaluation's.
  ReplicaView(const Program& training, const Model& model);

  /// What `rank` holds: from its construction on, and once more after its first step. `is_updated`: the optimizer has
  /// made a step; before it moments are not shown, under any plan.
  void show(int rank, Replicas& replicas, bool is_updated, std::vector<RunningStatistics> statistics,
            std::vector<TrackedTable> tables);

  /// What has been shown: each holder's slice, in the order of the buckets and ranks. Tensors are the workers' own.
  ReplicaState state();

  /// By table of the state: the rows that a step on these model inputs reads, each once.
  std::vector<std::vector<int64_t>> rows_in(const std::vector<at::Tensor>& inputs);

  /// After the state's weights were written: the copies in the compute dtype too, and those of other workers. Allocates
  /// nothing.
  void renew();

 private:
  struct Shown {
    std::vector<std::vector<ReplicaPiece>> pieces;  ///< by bucket
    std::vector<RunningStatistics> statistics;
    std::vector<TrackedTable> tables;
  };
  struct Table {
    RowTable place;
    std::vector<NodeId> row_inputs;
    RowSet rows;
  };
  void add_tables(BucketId bucket, int holder, size_t place);
  void renew_shared(size_t bucket);
  void renew_private(size_t bucket);

  const Program& program_;
  const Model& model_;
  std::vector<Shown> shown_;   ///< by rank
  std::vector<Table> tables_;  ///< of the last state()
};

}  // namespace trireme
