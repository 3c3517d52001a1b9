// Trial steps: a few real training steps of a model on this machine, before anything is predicted. They show what a
// step takes beyond the layers that a profile measures one by one: layers whose data other layers pushed out of the
// caches, the runtime's own work, cores that are not equally fast because other programs use them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/profiled_costs.h"
#include "experiment/run_spec.h"
#include "forecast/cost_source.h"
#include "profile/profile.h"
#include "trireme/plan.h"

namespace trireme {

/// How long a step of a plan took, or why it could not run.
struct TrialStep {
  double seconds = 0;
  std::optional<double> core_seconds = {};  ///< the speed of the cores meanwhile: RunResult::core_seconds
  std::string why_not = {};                 ///< empty: it ran

  bool ran() const { return why_not.empty(); }
};

/// Measures a step of a plan (train/measure_step.h).
using MeasureStep = std::function<TrialStep(const Plan&)>;

/// Returns the number of rounds in which a plan is tried whose step is predicted to take `predicted` seconds: fewer for
/// longer steps; 0: it is not tried.
int trial_rounds(double predicted);

/// Returns the median of the measured seconds, converted to cores that need `core_seconds` for the reference piece of
/// work (base/devices/core_speed.h), because trials at different times see cores of different speed. 0: not converted.
/// There must be at least one step.
double median_seconds(const std::vector<TrialStep>& measured, double core_seconds);

/// Returns the experiment without emulated links, slowed workers and memory limits that change, so that it runs at this
/// machine's own speed.
RunSpec without_emulation(const RunSpec& experiment);

/// Fits factors on the measured seconds of layers so that the predictions of up to three plans agree with their trial
/// steps: one worker alone, plain data parallelism on several, and on more than there are cores. All other plans are
/// predicted. Plans that the batch does not allow are left out.
class TrialSteps {
 public:
  struct Found {
    std::optional<StepFactors> factors;  ///< not set: nothing was tried
    std::string in_words;                ///< a line for the user
  };

  /// The references must outlive this object. `loading`: CostSource::loading. `devices`: the numbers of workers that
  /// matter. The largest of them is tried, and the largest number up to it that has a core for each thread,
  /// or a GPU for each worker.
  TrialSteps(const RunSpec& experiment, const Model& model, const ProfiledCosts& layers, double loading,
             const std::vector<int>& devices);

  /// Requests all costs that measure() needs.
  void predict();
  /// Short steps are tried two or three times, in turn, and three times more if their seconds scatter. Steps that are
  /// predicted to take more than a few seconds are not tried, nor plans that do not fit into memory. The factors of the
  /// layers change meanwhile.
  Found measure(const MeasureStep& measure_step);

 private:
  struct Trial {
    Plan plan;
    CostSource source;
    double StepFactors::*factor = nullptr;  ///< the factor that this trial determines
    double before = 0;                      ///< predicted seconds without factors
    std::vector<TrialStep> measured = {};
    std::string why_not = {};  ///< empty: it can be tried
  };

  void add(int workers, double StepFactors::*factor, const Profile& profile, double loading);
  /// Predicts the seconds of a step with these factors, which remain set in the layers; nullopt: the plan does not fit
  /// into memory.
  std::optional<double> predicted(Trial& trial, const StepFactors& factors);
  void refuse_long(Trial& trial);
  static void measure_once(Trial& trial, const MeasureStep& measure_step);
  double seconds(const Trial& trial) const { return median_seconds(trial.measured, core_seconds_); }
  /// True if the trial's seconds differ by more than cores of one speed explain.
  bool scatters(const Trial& trial) const;
  /// Fits the trial's factor, after those of the trials before it.
  void fit(Trial& trial, StepFactors& factors);

  const RunSpec experiment_;
  const Model& model_;
  const ProfiledCosts& layers_;
  double core_seconds_ = 0;    ///< of the profile
  std::vector<Trial> trials_;  ///< one worker first
};

}  // namespace trireme
