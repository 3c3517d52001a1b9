// What a parameter server alone knows of a run, as a TrainingState: weights and running statistics, no moments.
#pragma once

#include <cstdint>

#include "program/program.h"
#include "runtime/migrate/migrate.h"
#include "runtime/precision.h"
#include "trireme/model.h"
#include "trireme/replica_state.h"

namespace trireme {

/// `values`: in the order of a replica's state (ReplicaView::state), cut in any way. Frozen parameters have their
/// initial values, of `seed`. Errors (internal): values that are not as many as the program has.
TrainingState state_of_values(const Program& training, const Model& model, Precision precision, uint64_t seed,
                              const ModelValues& values);

}  // namespace trireme
