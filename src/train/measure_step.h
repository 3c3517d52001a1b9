// Trial steps: how long a step of a plan really takes, from a few steps of training whose result is thrown away.
#pragma once

#include <atomic>
#include <memory>

#include "experiment/run_spec.h"
#include "forecast/trial_steps.h"
#include "trireme/plan.h"

namespace trireme {

class ProcessRank;

inline constexpr double kTrialSeconds = 1;

/// Returns the experiment that measure_step() trains: endless, without evaluation, and nothing is kept.
RunSpec as_trial(const RunSpec& experiment);

/// Returns the experiment for a trial of one worker alone, where the workers of others are processes.
RunSpec as_threads(const RunSpec& experiment);

/// Returns the median seconds of a step of the plan, and how fast the cores were: trains for about `seconds`, but at
/// least three steps and the warm-up, without evaluation. It can have failed, or the user interrupted it.
/// `process`: this process is rank 0, and the other ranks call run_follower_rank() with as_trial(experiment); null: the
/// workers are threads of this process. Errors (user): the plan does not suit the model.
TrialStep measure_step(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                       double seconds, const std::atomic<bool>& interrupted,
                       const std::shared_ptr<ProcessRank>& process = nullptr);

/// Returns measure_step() of the experiment for kTrialSeconds, as Predictions::try_steps calls it: what this machine
/// itself does. The arguments must outlive the result.
MeasureStep trial_of_steps(const RunSpec& experiment, const Model& model, const TaskData& data,
                           const std::atomic<bool>& interrupted);

/// The same for Predictions::use_final_trials: over the experiment's emulated links.
MeasureStep trial_of_finalists(const RunSpec& experiment, const Model& model, const TaskData& data,
                               const std::atomic<bool>& interrupted);

}  // namespace trireme
