// A replica's weights, moments and running statistics as an update policy sees them, divided as its workers hold them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "runtime/row_set.h"
#include "trireme/hub.h"
#include "trireme/model.h"

namespace trireme {

/// Returns the indices of the buffers that are a running mean and its variance, found by their names.
std::vector<std::pair<size_t, size_t>> statistics_indices(const std::vector<BufferSpec>& specs);
/// Returns those buffers.
std::vector<RunningStatistics> running_statistics(const std::vector<BufferSpec>& specs,
                                                  const std::vector<at::Tensor>& buffers);

/// Shared by the workers of one replica, which are threads of one process. Either they share one copy of the weights,
/// or each has its own (Program::private_replicas). In the second case each holder of a bucket has the master values
/// and moments of its own slice, and no other holder has those moments (optimizer sharding). Every worker calls show().
/// Then, while no step is running, the first worker reads and writes the state for all. Not thread-safe otherwise:
/// callers separate the two phases by barriers.
class ReplicaView {
 public:
  /// Arguments must outlive this object. The program is one that agrees (Program::agrees), or an evaluation program.
  ReplicaView(const Program& training, const Model& model);

  /// Registers what `rank` holds. Each worker calls it after its construction and once more after its first step.
  /// `is_updated`: the optimizer has made a step; before that moments are not registered, under any plan.
  /// `restart_optimizer`: see ReplicaState, of this worker.
  void show(int rank, Replicas& replicas, bool is_updated, std::vector<RunningStatistics> statistics,
            std::vector<TrackedTable> tables, std::function<void()> restart_optimizer);

  /// Returns each registered holder's slice, in the order of buckets and ranks. The tensors are the workers' own
  /// memory. Its restart_optimizer is valid as long as this object.
  ReplicaState state();

  /// Returns, for each table of the state, the distinct rows that a step on these model inputs reads.
  std::vector<std::vector<int64_t>> rows_in(const std::vector<at::Tensor>& inputs);

  /// Call it after the state's weights were written. Copies them to the compute dtype and to the other workers' copies.
  /// Allocates nothing.
  void renew();

 private:
  struct Shown {
    std::vector<std::vector<ReplicaPiece>> pieces;  ///< by bucket
    std::vector<RunningStatistics> statistics;
    std::vector<TrackedTable> tables;
    std::function<void()> restart_optimizer;
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
  std::vector<Table> tables_;  ///< of the last call of state()
};

}  // namespace trireme
