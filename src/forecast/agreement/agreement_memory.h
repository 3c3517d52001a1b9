// Predicts the memory of an update policy by running it.
#pragma once

#include "experiment/run_spec.h"
#include "forecast/memory_beside.h"
#include "trireme/plan.h"

namespace trireme {

struct StandIn;

/// Counts what the policy allocates while it runs on the stand-in, with replicas on threads. Thread-safe. Errors
/// (user): those of make_policy.
AgreementMemory predict_agreement_memory(const RunSpec& experiment, const Plan& plan, const StandIn& stand_in);

}  // namespace trireme
