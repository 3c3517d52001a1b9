// Hogwild!: replicas that train on one copy of the weights without locks.
//
// Niu, Recht, Ré, Wright, "HOGWILD!: a lock-free approach to parallelizing stochastic gradient descent", 2011. Before a step a replica
// reads the shared weights element by element, so that it may see a part of another's step; after it, it adds what its own has changed,
// element by element, with an atomic addition that loses nothing. Of the tables of embeddings only the rows that its batch names are
// read and written.
//
// Libraries cannot compute on memory that others write to (a data race), so a step works on the replica's own weights.
#pragma once

#include <cstdint>
#include <memory>

#include "base/config.h"
#include "update/policy.h"
#include "update/run_facts.h"

namespace trireme {

/// Elements that several threads read and write at once, each by relaxed atomic accesses: none is torn or lost, nothing is said about
/// their order. T: float or double. `mine` and `before` are the caller's own.
template <class T>
struct LockFree {
  /// mine[i] = before[i] = shared[i].
  static void read(T* shared, int64_t elements, T* mine, T* before);
  /// Adds mine[i] - before[i] to shared[i]. Where it still has the value before[i] it takes mine[i], the same bits; where the two are equal
  /// it is not written.
  static void add(T* shared, int64_t elements, const T* mine, const T* before);
};

std::unique_ptr<UpdatePolicy> hogwild();
/// Errors (user): a local optimizer that carries something over from step to step.
std::unique_ptr<UpdatePolicy> read_hogwild(const ConfigTable& update, const RunFacts& facts);

}  // namespace trireme
