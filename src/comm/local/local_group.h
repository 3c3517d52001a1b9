// Where the members of one communicator meet, and what each of them does with the others' buffers there.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/communicator.h"

namespace trireme {

enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, barrier };

/// One rank's call, published to the others. Holds references, so that memory outlives a caller that was aborted.
struct alignas(64) LocalCall {
  Collective collective = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  int64_t bytes = 0;  ///< that leave the rank, by formula
};

std::string to_string(const LocalCall& call);  ///< "all_reduce(sum) of Float [4, 5]"

/// A collective runs in two steps. All publish their call and arrive; the last to arrive checks that the calls match
/// and releases the others. Then either the last has done the whole work before releasing (small tensors: one
/// hand-over), or each rank does its own part and all leave together, so that nobody's buffer changes while another
/// still works on it.
struct LocalGroup {
  LocalGroup(int64_t id, std::vector<int> world_ranks)
      : id(id), world_ranks(std::move(world_ranks)), calls(this->world_ranks.size()) {}

  int size() const { return static_cast<int>(world_ranks.size()); }

  /// Throws a run error naming two calls that do not fit together, the same one on whichever rank it runs.
  void check_calls() const;

  /// Whether one rank should do all the work: little of it, or memory formats that differ between ranks.
  bool is_work_for_one() const;

  /// The part of `rank`: all_reduce: reduces its slice and writes it to every output; else fills its own outputs.
  void work(int rank);
  void work_of_all();

  const int64_t id;
  const std::vector<int> world_ranks;  // ascending
  std::vector<LocalCall> calls;  // by rank; written by its rank before it arrives, read by others until they leave

  // Counts over all calls: the k-th call (from 1) is complete at size()*k arrivals, at k releases, ...
  alignas(64) std::atomic<int64_t> arrived{0};
  alignas(64) std::atomic<int64_t> released{0};
  alignas(64) std::atomic<int64_t> left{0};
  alignas(64) std::atomic<int64_t> freed{0};
  bool done_by_one = false;                    // written by the last to arrive before it releases
  std::chrono::steady_clock::time_point over;  // likewise: when emulated links will have carried it
};

}  // namespace trireme
