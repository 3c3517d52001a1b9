// Final trials: a search on this machine ends with real steps of the plans that its predictions cannot tell apart.
// Measured layers have errors, and the plan that is predicted to be the fastest of thousands is the one that these
// errors favour most.
#pragma once

#include <string>
#include <vector>

#include "forecast/finalists.h"
#include "forecast/trial_steps.h"

namespace trireme {

/// Chooses among finalists by trial steps. Each plan is measured once, however often it is asked for.
class FinalTrials {
 public:
  /// `measure_step`: a step as the training will run it. `core_seconds`: the speed of the cores at which the trials are
  /// compared (Predictions::core_seconds); 0: as measured. `plainest_within`: the plainest plan, data parallelism, is
  /// tried if it is predicted to take at most that much longer than the fastest (1: twice as long).
  FinalTrials(MeasureStep measure_step, double core_seconds, double plainest_within = kWithin);

  /// Returns the finalist to train under, of those that fit and have this number of devices (0: any). Tries up to
  /// kMostTried of those that are predicted to take at most kWithin longer than the fastest: that one, the one that
  /// to_run() would choose, the fastest of those with the fewest parts, and the next fastest ones, those that differ
  /// only in their schedule last; of plans that differ in optimizer sharding only, or not at all in their short
  /// description, the one with fewer parts. They take turns; one that is clearly slower drops out after a round. Of
  /// those that took at most kNoise longer than the fastest, returns the one with the fewest parts. Plans that a run
  /// refuses are left out, and those with steps that are too long (trial_rounds). Null: nothing was measured, because
  /// there are not two such plans, or predictions are not based on measurements, or none could run.
  const Finalist* choose(const std::vector<Finalist>& finalists, const Model& model, int devices = 0);

  /// Returns a line that says what the plans took at the last choice and which could not run, and forgets it; "":
  /// nothing was tried.
  std::string take_line(const Model& model);

  static constexpr size_t kMostTried = 4;
  static constexpr double kWithin = 0.5, kNoise = 0.03;

 private:
  struct Tried {
    Plan plan;
    double predicted = 0;  ///< seconds
    std::vector<TrialStep> measured = {};
    std::string why_not = {};  ///< empty: it could run
  };

  /// The place in `tried_`.
  size_t known(const Finalist& finalist);
  void measure_once(Tried& tried, int rounds);
  double seconds(const Tried& tried) const { return median_seconds(tried.measured, core_seconds_); }

  const MeasureStep measure_step_;
  const double core_seconds_, plainest_within_;
  std::vector<Tried> tried_;
  std::vector<size_t> last_;         ///< the places of the last choice's plans in `tried_`, the chosen one first
  std::vector<size_t> last_failed_;  ///< the same, of those that could not run
};

}  // namespace trireme
