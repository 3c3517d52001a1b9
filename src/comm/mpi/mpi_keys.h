// Keys that the ranks of a run over MPI share (KeyStore of trireme/backend.h), over connections separate from
// MPI's. Otherwise signs of life would queue behind the very messages whose absence they must explain.
#pragma once

#include <chrono>
#include <memory>

#include "trireme/backend.h"

namespace trireme {

struct MpiKeys {
  std::shared_ptr<KeyStore> keys;
  bool are_shared = false;  ///< false: the keys are local to this process
};

/// Returns the keys of the next world. Rank 0 hosts them, protected by a token that the other ranks receive over MPI.
/// It listens on the loopback if all ranks are on one machine, otherwise on all interfaces. If any rank cannot reach
/// it, every rank gets keys of its own, and rank 0 logs what that means. `world`: the world's connections, not yet
/// used. Every rank must call it for the same worlds in the same order. Waits up to `patience` for each other rank.
/// Throws std::exception if a rank does not arrive.
MpiKeys share_keys(Transport& world, int rank, int size, std::chrono::milliseconds patience);

}  // namespace trireme
