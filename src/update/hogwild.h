// Hogwild!: replicas that train on one copy of the weights without locks.
//
// Niu, Recht, Ré, Wright, "HOGWILD!: a lock-free approach to parallelizing stochastic gradient descent", 2011. Before a
// step a replica reads the shared weights word by word, so it may see a part of another replica's step. After the step
// it adds its own change word by word, with an atomic addition that loses nothing. Of embedding tables, only the rows
// of its batch are read and written.
//
// Libraries cannot compute on memory that other threads write to (a data race), so a step works on the replica's own
// copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/policy.h"

namespace trireme {

/// Elements that several threads read and write concurrently with relaxed atomic accesses: no element is torn or lost;
/// the order is not defined. They are stored in words of 64 bits, each with two floats or one double. An access affects
/// a whole word and leaves its other element unchanged. T: float or double. `mine` and `before` are the caller's own
/// memory, of `count` elements. `begin` is an index of the shared elements.
template <class T>
class LockFree {
 public:
  LockFree(const T* values, int64_t count);

  int64_t size() const { return size_; }
  /// mine[i] = before[i] = shared[begin + i]. `mine` and `before` may be the same memory.
  void read(int64_t begin, int64_t count, T* mine, T* before) const;
  /// Adds mine[i] - before[i] to shared[begin + i]. If that element still equals before[i], it becomes mine[i] bit for
  /// bit. If mine[i] equals before[i], it is unchanged.
  void add(int64_t begin, int64_t count, const T* mine, const T* before);

 private:
  static constexpr int64_t kLanes = sizeof(uint64_t) / sizeof(T);

  int64_t size_;
  std::vector<std::atomic<uint64_t>> words_;
};

/// Requires a local optimizer without state, which the reader of [update] checks (user error).
std::unique_ptr<UpdatePolicy> hogwild();

}  // namespace trireme
