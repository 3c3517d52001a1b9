// Final trials: a search on this machine ends with real steps of the plans that its predictions cannot tell apart.
// Measured layers have errors. Among thousands of plans, the one with the fastest prediction is the one whose
// prediction has the most favourable errors.
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
  /// tried if its predicted step is at most that share longer than the fastest (1: twice as long).
  FinalTrials(MeasureStep measure_step, double core_seconds, double plainest_within = kWithin);

  /// Returns the finalist to train under, of those that fit and have this number of devices (0: any). Tries up to
  /// kMostTried plans whose predicted step is at most kWithin longer than the fastest: the fastest, the one that
  /// to_run() would choose, the fastest of those with the fewest parts, then the next fastest ones. Plans that differ
  /// from a chosen one only in their schedule come last. Of plans that differ only in optimizer sharding, or have the
  /// same short description, only the one with the fewest parts is tried. The plans are tried in turn, in several
  /// rounds; one that is clearly slower drops out after a round. Of the plans whose step took at most kNoise longer
  /// than the fastest, returns the one with the fewest parts. Plans that a run refuses, and plans whose steps are too
  /// long (trial_rounds), are left out. Returns null if nothing was measured: there are fewer than two such plans, the
  /// predictions are not based on measurements, or no plan could run.
  const Finalist* choose(const std::vector<Finalist>& finalists, const Model& model, int devices = 0);

  /// Returns a line with the measured seconds of the plans of the last choice and the plans that could not run; "" if
  /// nothing was tried. A second call returns "".
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
