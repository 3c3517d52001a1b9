// The part of a run's state that a parameter server alone holds, as a TrainingState: weights and running statistics,
// but no moments.
#pragma once

#include <cstdint>

#include "program/program.h"
#include "runtime/migrate/migrate.h"
#include "runtime/precision.h"
#include "trireme/hub.h"
#include "trireme/model.h"

namespace trireme {

/// `values`: in the order of a replica's state (ReplicaView::state), divided in any way. Frozen parameters get their
/// initial values from `seed`. Errors (internal): the number of values differs from the program's.
TrainingState state_of_values(const Program& training, const Model& model, Precision precision, uint64_t seed,
                              const ModelValues& values);

}  // namespace trireme
