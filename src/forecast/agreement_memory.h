// Predicts the memory that an update policy needs beside a replica's training: copies of weights, the parameter server,
// what an exchange needs meanwhile.
#pragma once

#include <cstdint>

#include "base/memory.h"
#include "experiment/run_spec.h"
#include "trireme/plan.h"

namespace trireme {

struct StandIn;

/// Bytes on the device of a replica's first worker, of the replica that needs the most.
struct AgreementMemory {
  int64_t between = 0;     ///< held between exchanges
  int64_t exchanging = 0;  ///< the most at a time, in an exchange
};

/// Counts what the policy allocates while it runs on the stand-in, with replicas on threads. Thread-safe. Errors
/// (user): those of make_policy.
AgreementMemory predict_agreement_memory(const RunSpec& experiment, const Plan& plan, const StandIn& stand_in);

/// Adds it to the memory of a worker that trains. During an exchange there are no activations.
void add(const AgreementMemory& memory, MemoryUse& worker);

}  // namespace trireme
