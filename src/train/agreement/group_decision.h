// A decision that one worker of a group takes for all of them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace trireme {

/// Yes or no, decided by the worker of rank 0 and read by all. Rank 0 may already take the next decision while a slower
/// worker still reads this one: decisions are kept in two places in turn, so only the decision after the next one
/// overwrites a place, and its barrier waits for the slow worker.
class GroupDecision {
 public:
  explicit GroupDecision(int workers) : taken_(size_t(workers)) {}

  /// All workers of the group call it, the same number of times. `decide` runs on rank 0 only. `barrier` waits for all
  /// workers of the group. Returns what `decide` returned.
  template <class Decide, class Barrier>
  bool take(int rank, const Decide& decide, const Barrier& barrier) {
    bool& place = places_[size_t(taken_[size_t(rank)]++ % 2)];
    if (rank == 0) place = decide();
    barrier();
    return place;
  }

 private:
  std::array<bool, 2> places_{};
  std::vector<int64_t> taken_;  // by rank: number of its decisions; each worker writes its own
};

}  // namespace trireme
