// Shared state of the members of one communicator, and the work that each of them does on the others' buffers.
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

/// One rank's call, visible to the others. Holds references, so that the memory outlives a caller that was aborted.
struct alignas(64) LocalCall {
  Collective collective = Collective::barrier;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> outputs;
  int64_t bytes = 0;  ///< bytes that leave the rank, by formula
};

std::string to_string(const LocalCall& call);  ///< "all_reduce(sum) of Float [4, 5]"

/// A collective runs in two steps. First all ranks publish their calls and arrive; the last to arrive checks that the
/// calls match and releases the others. Then there are two cases. For small tensors the last rank does the whole work
/// before it releases the others (one hand-over). Otherwise each rank does its own part and all leave together, so that
/// no rank's buffer changes while another rank still uses it.
struct LocalGroup {
  LocalGroup(int64_t id, std::vector<int> world_ranks)
      : id(id), world_ranks(std::move(world_ranks)), calls(this->world_ranks.size()) {}

  int size() const { return static_cast<int>(world_ranks.size()); }

  /// Throws a run error that names two calls that do not match. The error is the same on every rank.
  void check_calls() const;

  /// True if one rank should do all the work: if it is little, or if memory formats differ between ranks.
  bool is_work_for_one() const;

  /// Does the part of `rank`. For all_reduce: reduces its slice and writes it to every output. Otherwise: fills its own
  /// outputs.
  void work(int rank);
  void work_of_all();

  const int64_t id;
  const std::vector<int> world_ranks;  // ascending
  std::vector<LocalCall> calls;  // by rank; written by its rank before it arrives, read by the others until they leave

  // Counts over all calls: the k-th call (from 1) is complete at size()*k arrivals, at k releases, ...
  alignas(64) std::atomic<int64_t> arrived{0};
  alignas(64) std::atomic<int64_t> released{0};
  alignas(64) std::atomic<int64_t> left{0};
  alignas(64) std::atomic<int64_t> freed{0};
  bool done_by_one = false;                    // written by the last rank to arrive, before it releases the others
  std::chrono::steady_clock::time_point over;  // likewise: when the emulated links finish the transfer
};

}  // namespace trireme
