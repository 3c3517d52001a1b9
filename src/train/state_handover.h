// Passes the state of a run from its workers, which gather it between two steps, to the thread that writes it while the
// workers continue.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "metrics/early_stopping.h"
#include "metrics/result.h"
#include "runtime/migrate/training_state.h"

namespace trireme {

/// What the evaluations of a run so far have shown, as far as a checkpoint has it.
struct ShownByEvaluations {
  StoppingState stopping = {};
  std::string ended = {};                     ///< why one of them ends the run, before its length; empty: none does
  std::optional<EvaluationPoint> best = {};   ///< the one whose weights are in the state
  std::optional<TargetReached> reached = {};  ///< the first that reached the target
};

struct GatheredState {
  int64_t step = 0;  ///< steps done
  TrainingState state;
  std::string plan;          ///< description of the plan under which it was gathered
  double stall_seconds = 0;  ///< time that the first worker spent on it
  /// Samples that replicas that agree had seen, which may be more than at the step; 0: those of the step.
  int64_t samples = 0;
  bool awaits_evaluation = false;  ///< the evaluation that belongs to the step was not finished
  /// Of runs without an agreement only `best`; the coordinating thread knows the rest.
  ShownByEvaluations shown = {};
};

/// Holds one state at a time: the next state is gathered after the previous one was given back. Thread-safe.
class StateHandover {
 public:
  /// Called by the first worker before all workers gather. Blocks until no state is in use, or until `gives_up` returns
  /// true. Returns the memory of an earlier state.
  TrainingState wait_for_turn(const std::function<bool()>& gives_up);
  /// True if no state is in use.
  bool is_free() const;
  /// Returns the memory of an earlier state, if it is free. Does not block.
  TrainingState take_used();
  /// Called by the first worker after wait_for_turn or take_used.
  void put(GatheredState gathered);

  /// Returns the state that was put and has not been taken.
  std::optional<GatheredState> take();
  /// Call it when the state that was taken is no longer needed.
  void give_back(TrainingState used);

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool under_way_ TRIREME_GUARDED_BY(mutex_) = false;
  std::optional<GatheredState> gathered_ TRIREME_GUARDED_BY(mutex_);
  TrainingState used_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
