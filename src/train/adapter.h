// Decides, after each step, whether to switch to another plan: after ASA's fourth step. RECONSTRUCTION: of "Optimizing
// Distributed Training Approaches for Scaling Neural Networks" (Baligodugula, Amsaad, 2025) only the claims are known,
// not the algorithm.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profile/probe_link.h"
#include "trireme/plan.h"

namespace trireme {

/// The plan to switch to, and the reason.
struct PlanSwitch {
  Plan plan;
  std::string reason;             ///< one line
  std::vector<int> workers = {};  ///< by rank of the plan: the worker of the run; empty: 0, 1, ...
};

/// Returns " on worker 1" or " on workers 2, 0"; "" if `workers` is 0, 1, ... in order.
std::string on_workers(const std::vector<int>& workers);

/// A finished step of the run.
struct MeasuredStep {
  int64_t step = 0;  ///< steps done, 1-based
  int64_t steps_left = 0;
  double seconds = 0;  ///< from the end of the previous step to the end of this one, each on its slowest worker
  int plan = 0;        ///< number of plan changes before this step
  /// Links measured since the previous step was reported. They were measured before this step or before one of the next
  /// steps; that step takes longer because of it.
  std::optional<LinkEstimate> links = {};
  std::vector<double> compute = {};  ///< by rank: seconds in layers and updates; empty: unknown
  int64_t memory = 0;                ///< bytes that each worker may use from now on; 0: no limit
};

class Adapter {
 public:
  virtual ~Adapter() = default;

  struct Wish {
    bool links = false;                     ///< measure the links before one of the next steps
    std::optional<PlanSwitch> change = {};  ///< to make after the step that the workers are in
    std::string warning = {};               ///< message to the user about the run; may be empty
  };
  /// Called after every step, in order, by the training's coordinating thread. Workers continue meanwhile, by a step or
  /// more. Not called while a requested change is pending.
  virtual Wish after_step(const MeasuredStep& step) = 0;
};

/// Conditions on which the speed and memory of a plan depend, and which may change during a run.
struct Conditions {
  LinkEstimate links = {};  ///< a bandwidth of 0: unknown, or no limit
  /// By worker of the run: its computations take this many times as long as the fastest worker's; 1 or more.
  std::vector<double> slowness = {};
  int64_t memory = 0;  ///< limit in bytes of each worker; 0: no limit
};

/// Predicted costs of a plan.
struct Forecast {
  std::string name;  ///< of the plan, unique among candidates
  double step_seconds = 0;
  int64_t bytes_to_move = 0;         ///< that the worker which lacks most must receive to switch to this plan
  std::vector<int> workers = {};     ///< by rank: the worker of the run
  std::vector<double> compute = {};  ///< by rank: seconds of a step in layers and updates
  int64_t missing = 0;               ///< bytes that the fullest worker lacks; 0: the plan fits
};

/// The predictions for all candidates.
struct Outlook {
  std::vector<Forecast> forecasts;
  double seconds = 0;  ///< that finding and simulating them took
};

/// Lists candidate plans with their predicted step times.
class Forecaster {
 public:
  virtual ~Forecaster() = default;
  /// Returns the candidates under these conditions, including the plan called `current`. `bytes_to_move` counts from
  /// that plan.
  virtual Outlook outlook(const Conditions& now, const std::string& current) = 0;
  /// Returns the plan of a candidate of the last outlook.
  virtual const Plan& plan(const std::string& name) const = 0;
};

struct AdaptationOptions {
  int settling = 3;   ///< steps that are ignored after the start, a change of plan and a measurement of links
  int window = 5;     ///< steps whose median is one observation
  int windows = 2;    ///< consecutive observations that must be off before anything is done
  double off = 0.25;  ///< relative deviation from the expected step time above which an observation is off
  /// Relative deviation of a worker's compute time, compared with the other workers and with the expectation, above
  /// which the worker is off.
  double unequal = 0.4;
  double gain = 0.05;  ///< least relative gain for a change to a plan that has run before: hysteresis
  /// The same for a plan that has not run, because forecasts err; doubled by each plan that turned out slower than
  /// forecast.
  double untried = 0.15;
  double same = 0.2;        ///< bandwidths and speeds that differ by less are considered equal
  double rebuilding = 0.1;  ///< seconds of a change of plan in addition to moving data
  bool probes = true;       ///< links can be measured
};

/// Compares medians over a window of steps with expected values: the seconds of a step, and the compute seconds of each
/// worker compared with the other workers. If either stays off, it finds out what has changed:
/// - If a worker's compute time repeatedly grew more than that of the others (than the lower median's), the worker is
///   that much slower. Its factor is estimated anew; those of the others do not change.
/// - If the step is off, the links are measured anew. If they repeatedly differ, they are measured until two
///   consecutive measurements agree.
/// - Otherwise the machine as a whole is slower or faster. All forecasts and remembered times are scaled by that
///   factor, and nothing else changes.
///
/// If something has changed, or a new plan is slower than its forecast, it requests forecasts and changes the plan if
///     (T_now - T_new) steps_left > bytes_to_move / bandwidth + latency + rebuilding   and
///     T_new < (1 - least gain) T_now.
/// T_now is the measured median. T_new is the time measured under similar conditions if the plan has run under them. If
/// the plan has run under other conditions, T_new is its forecast times its own ratio of measured to forecast time. If
/// it has never run, T_new is its forecast times the current plan's ratio: an error that all forecasts share cancels
/// out. If the plan does not change, the measured values become the expected ones, so that the same deviation is not
/// examined twice. Between two changes there are at least settling + window * windows steps.
///
/// If workers may use less memory than the current plan needs, it switches to the fastest plan that fits, whatever the
/// gain. If no plan fits, a warning says how much memory is missing.
class PlanAdapter final : public Adapter {
 public:
  /// `current`: the name of the plan with which the run begins, under the conditions `at_first`. The forecaster must
  /// outlive this object.
  PlanAdapter(Forecaster& forecaster, std::string current, Conditions at_first, const AdaptationOptions& options = {});

  Wish after_step(const MeasuredStep& step) override;

  /// Expected seconds of a step.
  double expected() const { return expected_; }
  /// Name of the plan that the run uses, or is about to use.
  const std::string& current() const { return current_; }
  /// What is known about links, workers and memory.
  const Conditions& conditions() const { return now_; }

 private:
  struct Known {
    Conditions conditions;
    double seconds = 0;
  };
  bool take_links(const LinkEstimate& links);
  bool observe(const MeasuredStep& step);
  void compare_workers();
  bool is_slow_or_fast(size_t rank, int observations) const;
  void estimate_slowness();
  Wish judge(const MeasuredStep& step);
  Wish reconsider(const MeasuredStep& step);
  Wish replan(const MeasuredStep& step, bool observed);
  Wish leave(const MeasuredStep& step, const Outlook& outlook, const Forecast& own, const Forecast* best,
             double seconds, double scale);
  Wish change_to(const Forecast& forecast, double seconds, double scale, std::string reason);
  double scale_of(const Forecast& own) const;
  double seconds_of(const Forecast& forecast, double scale) const;
  double least_gain(const std::string& plan) const;
  std::string circumstances() const;
  bool alike(const Conditions& conditions) const;
  void remember(double seconds);
  void confirm();
  void accept();
  void settle();

  Forecaster& forecaster_;
  const AdaptationOptions options_;
  std::string current_;
  std::vector<int> workers_;  ///< of the current plan, by rank
  Conditions now_;
  double machine_ = 1;   ///< factor by which all computations take longer than forecast
  double expected_ = 0;  ///< seconds of a step
  double forecast_ = 0;  ///< forecast for the current plan under the present conditions, as the forecaster returned it
  std::vector<double> expected_compute_;  ///< by rank
  bool confirmed_ = false;  ///< the current plan has been measured, and the expected values come from that
  int plan_ = 0;            ///< number of plan changes
  int settling_ = 0;        ///< steps still to be ignored
  int strikes_ = 0;         ///< consecutive observations whose step time was off
  bool measuring_ = false;  ///< a measurement of links has been requested
  std::optional<LinkEstimate> suspected_;  ///< last measured links, if they differ from the known ones
  int suspicions_ = 0;                     ///< consecutive measurements that differed
  int disappointments_ = 0;                ///< plans that turned out slower than forecast
  bool has_changed_ = false;               ///< links, speeds or memory have changed since candidates were last compared
  int64_t warned_of_ = -1;                 ///< memory limit that no plan fits and about which the user has been warned
  std::vector<MeasuredStep> window_;
  // the last observation:
  double observed_ = 0;
  std::vector<double> compute_;  ///< by rank
  struct Streak {
    int observations = 0;  ///< consecutive observations that were off in one direction
    double log_sum = 0;    ///< of compute time over the expected one, relative to the other workers
  };
  std::vector<Streak> streaks_;  ///< by rank
  int baseline_ = 0;             ///< number of observations of which expected_compute_ is the mean
  double pace_ = 1;              ///< ratio of measured to expected compute time of the other workers
  std::map<std::string, std::vector<Known>> known_;  ///< by plan
  /// By plan that has run: ratio of measured to forecast time, without the machine's factor.
  std::map<std::string, double> error_;
};

}  // namespace trireme
