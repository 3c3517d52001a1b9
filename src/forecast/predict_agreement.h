// Predicts a plan with an agreement: one replica's step by the simulator, and what its policy's exchanges take by the
// policy itself.
#pragma once

#include "forecast/predict_program.h"

namespace trireme {

/// As predict() of a plan that has one, which calls this. The policy runs on the modelled clock, on stand-ins for the
/// weights that are a few thousand elements long, over links that are slower by as much: so it exchanges when and as
/// often as in a run, and its bytes are those of a run but for rounding. Steps take what the simulator says of the
/// inner plan, or what [update.virtual] says where the experiment has it. What replicas on one machine take from each
/// other's cores and memory is not part of it.
RunResult predict_agreement(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                            const PredictionOptions& options);

}  // namespace trireme
