// Whoever decides during a run under which plan it goes on: after ASA's fourth step. RECONSTRUCTION: of "Optimizing
// Distributed Training Approaches for Scaling Neural Networks" (Baligodugula, Amsaad, 2025) the claims are known and
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

/// A plan to go on under, and why.
struct PlanSwitch {
  Plan plan;
  std::string reason;             ///< one line
  std::vector<int> workers = {};  ///< by rank of the plan: which of the run's workers; empty: 0, 1, ...
};

/// " on worker 1", " on workers 2, 0"; "" for 0, 1, ..., `all` of them.
std::string on_workers(const std::vector<int>& workers);

/// A step that the run has done.
struct MeasuredStep {
  int64_t step = 0;  ///< steps done, 1-based
  int64_t steps_left = 0;
  double seconds = 0;  ///< from the end of the step before it, on the last worker each
  int plan = 0;        ///< how often the run had changed its plan
  /// Measured since the step before was reported: before this step or one of the next, which takes the longer for it.
  std::optional<LinkEstimate> links = {};
  std::vector<double> compute = {};  ///< by rank: seconds in layers and updates; empty: not told
  int64_t memory = 0;                ///< bytes that each worker may take from now on; 0: no limit
};

class Adapter {
 public:
  virtual ~Adapter() = default;

  struct Wish {
    bool links = false;                     ///< measure the links before one of the next steps
    std::optional<PlanSwitch> change = {};  ///< after the step that workers are in
    std::string warning = {};               ///< what the user is to know of the run; may be empty
  };
  /// Asked after every step, in order, by the training's coordinating thread: workers go on meanwhile, by a step or
  /// more. While a wished change has not come about it is not asked.
  virtual Wish after_step(const MeasuredStep& step) = 0;
};

/// What a plan's time and place depend on and may change.
struct Conditions {
  LinkEstimate links = {};  ///< a bandwidth of 0: not known, or no limit
  std::vector<double> slowness =
      {};              ///< by worker of the run: computes for so many times as long as the fastest; 1 or more
  int64_t memory = 0;  ///< bytes of each worker; 0: no limit
};

/// What a plan is expected to take.
struct Forecast {
  std::string name;  ///< of the plan, unique among candidates
  double step_seconds = 0;
  int64_t bytes_to_move = 0;         ///< that some worker has to be sent to go over to it
  std::vector<int> workers = {};     ///< by rank: which of the run's workers
  std::vector<double> compute = {};  ///< by rank: seconds of a step in layers and updates
  int64_t missing = 0;               ///< bytes that the fullest worker lacks; 0: it fits
};

/// All candidates.
struct Outlook {
  std::vector<Forecast> forecasts;
  double seconds = 0;  ///< that it took to find and simulate them
};

/// Who knows candidates.
class Forecaster {
 public:
  virtual ~Forecaster() = default;
  /// Candidates under these conditions, the plan called `current` among them; bytes are from there.
  virtual Outlook outlook(const Conditions& now, const std::string& current) = 0;
  /// The plan of a candidate of the last outlook.
  virtual const Plan& plan(const std::string& name) const = 0;
};

struct AdaptationOptions {
  int settling = 3;   ///< steps that are not judged after a beginning, a change of plan and a measurement of links
  int window = 5;     ///< steps whose median is one observation
  int windows = 2;    ///< observations in a row that must be off before anything is done
  double off = 0.25;  ///< a step so far from what is expected, relatively
  double unequal =
      0.4;  ///< a worker that computes for so much longer or shorter than the others, against what is expected
  double gain = 0.05;  ///< least relative gain of a change to a plan that has run: hysteresis
  double untried =
      0.15;           ///< to one that has not: forecasts err. Doubled by each plan that turned out slower than forecast
  double same = 0.2;  ///< bandwidths and speeds that differ by less are taken for the same
  double rebuilding = 0.1;  ///< seconds of a change of plan besides what moves
  bool probes = true;       ///< there are links to be measured
};

/// Compares medians over a window of steps with what is expected: seconds of a step, and seconds that each worker
/// computes against the others. When either stays off it finds out what has changed:
/// - a worker whose compute time grew more than that of the others (than the lower median's), again and again, is that
/// much slower: its
///   factor is estimated anew, those of the others stay;
/// - links are measured anew where the step is off; if they differ again and again, until two measurements in a row
/// agree;
/// - where it is neither, the machine as a whole is slower or faster: all forecasts and memories are scaled by that,
/// and nothing changes. If something has changed, or a plan that the run went over to does not keep what its forecast
/// promised, it asks for forecasts and changes the plan where
///     (T_now - T_new) steps_left > bytes_to_move / bandwidth + latency + rebuilding   and   T_new < (1 - least gain)
///     T_now.
/// T_now is the measured median. T_new is what the plan has been measured to take under like conditions, where it has
/// run, else its forecast times what it took over its own forecast when it ran; where it never ran, times what the
/// current plan takes over its own: an error that all forecasts share cancels out. Where nothing changes, what is
/// measured becomes what is expected, so nothing is asked twice; between two changes lie at least settling + window *
/// windows steps.
///
/// When workers may take less memory than the current plan needs, the fastest plan that fits takes its place whatever
/// it gains; where none does, a warning says what is missing.
class PlanAdapter final : public Adapter {
 public:
  /// `current`: the name of the plan that the run begins with, under `at_first`. The forecaster outlives it.
  PlanAdapter(Forecaster& forecaster, std::string current, Conditions at_first, const AdaptationOptions& options = {});

  Wish after_step(const MeasuredStep& step) override;

  /// What a step is expected to take.
  double expected() const { return expected_; }
  /// The name of the plan that the run has, or is about to have.
  const std::string& current() const { return current_; }
  /// What is known of links, workers and memory.
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
  double machine_ = 1;   ///< by which everything computes for longer than forecasts say
  double expected_ = 0;  ///< seconds of a step
  double forecast_ = 0;  ///< of the current plan under the present conditions, as the forecaster gave it
  std::vector<double> expected_compute_;   ///< by rank
  bool confirmed_ = false;                 ///< the current plan has been measured, and expectations are from that
  int plan_ = 0;                           ///< how often it has been changed
  int settling_ = 0;                       ///< steps still to be left out
  int strikes_ = 0;                        ///< observations in a row of steps that were off
  bool measuring_ = false;                 ///< links have been asked for
  std::optional<LinkEstimate> suspected_;  ///< links as last measured, which differ from what was known
  int suspicions_ = 0;                     ///< measurements in a row that differed
  int disappointments_ = 0;                ///< plans that turned out slower than forecast
  bool has_changed_ = false;               ///< links, speeds or memory since candidates were last compared
  int64_t warned_of_ = -1;                 ///< limit that no plan fits
  std::vector<MeasuredStep> window_;
  // the last observation
  double observed_ = 0;
  std::vector<double> compute_;  ///< by rank
  struct Streak {
    int observations = 0;  ///< in a row that were off in one direction
    double log_sum = 0;    ///< of compute time over the expected one, against that of the others
  };
  std::vector<Streak> streaks_;                      ///< by rank
  int baseline_ = 0;                                 ///< observations that expected_compute_ is the mean of
  double pace_ = 1;                                  ///< compute time of the others over the expected one
  std::map<std::string, std::vector<Known>> known_;  ///< by plan
  std::map<std::string, double> error_;  ///< by plan that has run: seconds over forecast, the machine's pace left out
};

}  // namespace trireme
