// The end of a run before its length: by evaluations that do not improve, or at the target. And which of a run's
// evaluations is the best.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "metrics/result.h"
#include "trireme/config.h"
#include "trireme/model.h"

namespace trireme {

/// [early_stopping] and stop_at_target of an experiment.
struct EarlyStoppingSpec {
  int64_t patience = 0;  ///< evaluations without improvement that end the run; 0: none do
  double min_delta = 0;  ///< an improvement is larger than this
  /// "loss" or a metric of evaluations. Empty: the task's main metric.
  std::string measure = {};
  bool at_target = false;     ///< the run ends at the experiment's target
  bool restore_best = false;  ///< the run's result has the weights of its best evaluation
  std::string where = {};     ///< "mnist.toml:12: early_stopping.patience", for messages

  /// True if an evaluation may end the run.
  bool wanted() const { return patience > 0 || at_target; }
  /// True if the run must know each evaluation before it goes on.
  bool watches() const { return wanted() || restore_best; }
};

/// Reads [early_stopping]. Errors (user): keys without `patience`, except `restore_best` and its `measure`; values out
/// of range.
EarlyStoppingSpec read_early_stopping(const ConfigTable& table);

/// Errors (user): evaluations of the task do not have the measure.
void check_early_stopping(const EarlyStoppingSpec& spec, LearningTask task, int64_t classes);

/// Returns what the evaluation has reached; nullopt: not the target, or there is none.
std::optional<TargetReached> reached_by(const EvaluationPoint& point, std::optional<double> target);

/// What the evaluations so far have shown; part of a checkpoint.
struct StoppingState {
  std::string measure = {};         ///< of which `best` is a value
  std::optional<double> best = {};  ///< nullopt: no evaluation had a finite value
  int64_t best_step = 0;            ///< steps before the evaluation with the best value
  int64_t without_improvement = 0;  ///< evaluations since then
};

/// Decides after each evaluation. A function of the evaluations alone, so that all who see them decide alike. Not
/// thread-safe.
class EarlyStopping {
 public:
  /// `begun`: of an earlier run; ignored if it is of another measure.
  EarlyStopping(const EarlyStoppingSpec& spec, LearningTask task, std::optional<double> target,
                const StoppingState& begun = {});

  /// Takes evaluations in the order of their steps.
  void add(const EvaluationPoint& point);
  /// Compares the evaluation with the target only; add() does it too.
  void compare_with_target(const EvaluationPoint& point);
  /// Returns why the run must end; "" if it goes on.
  std::string reason() const;
  const StoppingState& state() const { return state_; }
  /// True if the evaluation that was added last is the best so far.
  bool improved() const { return state_.best && state_.without_improvement == 0; }

 private:
  EarlyStoppingSpec spec_;
  std::optional<double> target_;
  StoppingState state_;
  std::string reached_;  ///< what has reached the target; empty: nothing has
};

}  // namespace trireme
