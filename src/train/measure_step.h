// Trial steps: measures the real duration of a step of a plan by a few training steps, whose result is discarded.
#pragma once

#include <atomic>
#include <memory>

#include "experiment/run_spec.h"
#include "forecast/trial_steps.h"
#include "trireme/plan.h"

namespace trireme {

class ProcessRank;

inline constexpr double kTrialSeconds = 1;

/// Returns the experiment that measure_step() trains: without an end of its own, without evaluations, and without
/// files.
RunSpec as_trial(const RunSpec& experiment);

/// Returns the experiment for a trial with one worker, if the workers of the experiment are processes: the worker is
/// then a thread.
RunSpec as_threads(const RunSpec& experiment);

/// Trains under the plan for about `seconds`, but at least three steps after the warm-up, without evaluation. Returns
/// the median seconds of a step and the speed of the cores; or why there is no result: the run failed, or the user
/// interrupted it. `process`: this process is rank 0, and the other ranks call run_follower_rank() with
/// as_trial(experiment); null: the workers are threads of this process. Errors (user): the plan does not suit the
/// model.
TrialStep measure_step(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                       double seconds, const std::atomic<bool>& interrupted,
                       const std::shared_ptr<ProcessRank>& process = nullptr);

/// Returns a function that calls measure_step() for kTrialSeconds, for Predictions::try_steps: without emulation, so it
/// measures this machine itself. The arguments must outlive the result.
MeasureStep trial_of_steps(const RunSpec& experiment, const Model& model, const TaskData& data,
                           const std::atomic<bool>& interrupted);

/// The same for Predictions::use_final_trials, but with the experiment's emulated links.
MeasureStep trial_of_finalists(const RunSpec& experiment, const Model& model, const TaskData& data,
                               const std::atomic<bool>& interrupted);

}  // namespace trireme
