// Predicts a plan with an agreement. The simulator predicts the step of one replica; the exchanges are predicted by
// running the policy itself.
#pragma once

#include "forecast/predict_program.h"

namespace trireme {

/// As predict() for a plan with an agreement; predict() calls it. The policy runs on the modelled clock, on stand-ins
/// for the weights of a few thousand elements, over links that are slower by the same factor. So it exchanges at the
/// same times and as often as in a run, and its bytes are those of a run up to rounding. Steps take the simulated
/// seconds of the inner plan, or those of [update.virtual] if the experiment has it. The contention of replicas on one
/// machine for cores and memory is not predicted, nor are the seconds that the policy computes. Its memory is predicted
/// (forecast/agreement_memory.h): that of the replica that needs the most, for each replica.
RunResult predict_agreement(const RunSpec& experiment, const Model& model, const Plan& plan, const CostSource& source,
                            const PredictionOptions& options);

}  // namespace trireme
