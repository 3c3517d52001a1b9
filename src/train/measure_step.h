// Trial steps: how long a step of a plan really takes, from a few steps of training whose result is thrown away.
#pragma once

#include <atomic>
#include <optional>

#include "experiment/run_spec.h"
#include "forecast/trial_steps.h"
#include "trireme/plan.h"

namespace trireme {

/// Returns the median seconds of a step of the plan, and how fast the cores were, with the workers as threads of this
/// process: trains for about `seconds`, but at least three steps and the warm-up, without evaluation. nullopt if the
/// run failed or the user interrupted it. Errors (user): the plan does not suit the model.
std::optional<TrialStep> measure_step(const RunSpec& experiment, const Model& model, const TaskData& data,
                                      const Plan& plan, double seconds, const std::atomic<bool>& interrupted);

/// Returns measure_step() of the experiment for about a second, as Predictions::try_steps calls it: what this machine
/// itself does. The arguments must outlive the result.
MeasureStep trial_of_steps(const RunSpec& experiment, const Model& model, const TaskData& data,
                           const std::atomic<bool>& interrupted);

/// The same for Predictions::use_final_trials: over the experiment's emulated links.
MeasureStep trial_of_finalists(const RunSpec& experiment, const Model& model, const TaskData& data,
                               const std::atomic<bool>& interrupted);

}  // namespace trireme
