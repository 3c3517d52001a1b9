// Keys that the ranks of a run over MPI share (KeyStore of trireme/transport.h), over connections of their own
// beside MPI's: signs of life must not stand behind the messages whose absence they are to explain.
#pragma once

#include <chrono>
#include <memory>

#include "trireme/transport.h"

namespace trireme {

struct MpiKeys {
  std::shared_ptr<KeyStore> keys;
  bool are_shared = false;  ///< else they are this process' own
};

/// The keys of the next world. Rank 0 keeps them, behind a token that the ranks get over MPI: it listens on the
/// loopback where all are on one machine, else on all interfaces. Where a rank does not reach it all have keys of their
/// own, and rank 0 says what that means. `world`: its connections, not used yet. Every rank calls it for the same
/// worlds in the same order; it waits up to `patience` for each of the others. Throws std::exception when they do not
/// come.
MpiKeys share_keys(Transport& world, int rank, int size, std::chrono::milliseconds patience);

}  // namespace trireme
