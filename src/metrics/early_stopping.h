// The end of a run before its length: by evaluations that do not improve, or at the target.
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
  bool at_target = false;  ///< the run ends at the experiment's target
  std::string where = {};  ///< "mnist.toml:12: early_stopping.patience", for messages

  bool wanted() const { return patience > 0 || at_target; }
};

/// Reads [early_stopping]. Errors (user): keys without `patience`; values out of range.
EarlyStoppingSpec read_early_stopping(const ConfigTable& table);

/// `policy`: the update policy under which the run trains (Plan::agreement); empty: none. Errors (user): its replicas
/// are evaluated after training; evaluations of the task do not have the measure.
void check_early_stopping(const EarlyStoppingSpec& spec, LearningTask task, int64_t classes, const std::string& policy);

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

 private:
  EarlyStoppingSpec spec_;
  std::optional<double> target_;
  StoppingState state_;
  std::string reached_;  ///< what has reached the target; empty: nothing has
};

}  // namespace trireme
