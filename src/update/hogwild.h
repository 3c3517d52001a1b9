// Hogwild!: replicas that train on one copy of the weights without locks.
//
// Niu, Recht, Ré, Wright, "HOGWILD!: a lock-free approach to parallelizing stochastic gradient descent", 2011. Before a
// step a replica reads the shared weights word by word, so that it may see a part of another's step; after it, it adds
// what its own has changed, word by word, with an atomic addition that loses nothing. Of the tables of embeddings only
// the rows that its batch names are read and written.
//
// Libraries cannot compute on memory that others write to (a data race), so a step works on the replica's own weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/policy.h"

namespace trireme {

/// Elements that several threads read and write at once by relaxed atomic accesses: none is torn or lost, nothing is
/// said about their order. They lie in words of 64 bits, two floats or a double in each: an access is one of a word,
/// whose other element it leaves as it finds it. T: float or double. `mine` and `before` are the caller's own, of
/// `count` elements; `begin` counts from the first shared one.
template <class T>
class LockFree {
 public:
  LockFree(const T* values, int64_t count);

  int64_t size() const { return size_; }
  /// mine[i] = before[i] = shared[begin + i]. The two may be the same.
  void read(int64_t begin, int64_t count, T* mine, T* before) const;
  /// Adds mine[i] - before[i] to shared[begin + i]. Where that still has the value before[i] it takes mine[i], the same
  /// bits; where the two are equal it stays.
  void add(int64_t begin, int64_t count, const T* mine, const T* before);

 private:
  static constexpr int64_t kLanes = sizeof(uint64_t) / sizeof(T);

  int64_t size_;
  std::vector<std::atomic<uint64_t>> words_;
};

std::unique_ptr<UpdatePolicy> hogwild();
/// Errors (user): a local optimizer that carries something over from step to step.

}  // namespace trireme
