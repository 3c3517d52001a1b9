// The memory that an update policy needs in addition to a replica's training: copies of weights, the parameter server,
// and temporary memory of an exchange.
#pragma once

#include <cstdint>

#include "base/memory.h"

namespace trireme {

/// Bytes on the device of a replica's first worker; those of the replica that needs the most.
struct AgreementMemory {
  int64_t between = 0;     ///< held between exchanges
  int64_t exchanging = 0;  ///< the most at a time, in an exchange
};

/// Adds the policy's memory to that of a worker that trains. During an exchange there are no activations.
void add(const AgreementMemory& memory, MemoryUse& worker);

}  // namespace trireme
