// Whoever decides during a run under which plan it goes on: after ASA's fourth step. RECONSTRUCTION: of "Optimizing Distributed Training
// Approaches for Scaling Neural Networks" (Baligodugula, Amsaad, 2025) the claims are known and not the algorithm.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "profile/probe_link.h"

namespace trireme {

/// A plan to go on under, and why.
struct PlanSwitch {
  Plan plan;
  std::string reason;  ///< one line
};

/// A step that the run has done.
struct MeasuredStep {
  int64_t step = 0;        ///< steps done, 1-based
  int64_t steps_left = 0;
  double seconds = 0;      ///< from the end of the step before it, on the last worker each
  int plan = 0;            ///< how often the run had changed its plan
  /// Measured since the step before was reported: before this step or one of the next, which takes the longer for it.
  std::optional<LinkEstimate> links;
};

class Adapter {
 public:
  virtual ~Adapter() = default;

  struct Wish {
    bool links = false;                ///< measure the links before one of the next steps
    std::optional<PlanSwitch> change;  ///< after the step that workers are in
  };
  /// Asked after every step, in order, by the training's coordinating thread: workers go on meanwhile, by a step or more. While a wished
  /// change has not come about it is not asked.
  virtual Wish after_step(const MeasuredStep& step) = 0;
};

/// What a plan is expected to take.
struct Forecast {
  std::string name;              ///< of the plan, unique among candidates
  double step_seconds = 0;
  int64_t bytes_to_move = 0;     ///< that some worker has to be sent to go over to it
};

/// Who knows the candidates.
class Forecaster {
 public:
  virtual ~Forecaster() = default;
  /// Of all candidates, with links as they are now; bytes from the plan called `current`, itself a candidate.
  virtual std::vector<Forecast> forecasts(const LinkEstimate& links, const std::string& current) = 0;
  /// A candidate's plan.
  virtual const Plan& plan(const std::string& name) const = 0;
};

struct AdaptationOptions {
  int settling = 3;        ///< steps that are not judged after a beginning, a change of plan and a measurement of links
  int window = 5;          ///< steps whose median is one observation
  int windows = 2;         ///< observations in a row that must be off before anything is done
  double off = 0.25;       ///< so far from what is expected, relatively
  double gain = 0.05;      ///< least relative gain of a change: hysteresis
  double same_links = 0.2; ///< links whose bandwidths differ by less are taken for the same
  double rebuilding = 0.1; ///< seconds of a change of plan besides what moves
};

/// Compares the median over a window of steps with the expected step. When it stays off, it has the links measured, asks for forecasts, and
/// changes the plan where
///     (T_now - T_new) steps_left > bytes_to_move / bandwidth + latency + rebuilding   and   T_new < (1 - gain) T_now.
/// T_now is the measured median. T_new is what the plan has been measured to take under the same links, where it has run, else its forecast
/// times what the current plan takes over its own forecast: an error that all forecasts share cancels out. Where nothing changes, what is
/// measured becomes what is expected, so nothing is asked twice; between two changes lie at least settling + window * windows steps.
class PlanAdapter final : public Adapter {
 public:
  /// `current`: the name of the plan that the run begins with, under `links`. The forecaster outlives it.
  PlanAdapter(Forecaster& forecaster, std::string current, const LinkEstimate& links, const AdaptationOptions& options = {});

  Wish after_step(const MeasuredStep& step) override;

  /// What a step is expected to take.
  double expected() const { return expected_; }

 private:
  struct Known {
    double bandwidth = 0, seconds = 0;
  };
  Wish replan(const MeasuredStep& step);
  void remember(double seconds);
  double seconds_of(const Forecast& forecast, double scale) const;
  void settle();

  Forecaster& forecaster_;
  const AdaptationOptions options_;
  std::string current_;
  LinkEstimate links_;
  double expected_ = 0;
  int plan_ = 0;             ///< how often it has been changed
  int settling_ = 0;         ///< steps still to be left out
  int strikes_ = 0;          ///< observations in a row that were off
  bool measuring_ = false;   ///< links have been asked for
  double observed_ = 0;      ///< the last median
  std::vector<double> window_;
  std::map<std::string, std::vector<Known>> known_;  ///< by plan
};

}  // namespace trireme
