// Between the workers of a run, who gather its state between two steps, and whoever writes it down while they go on.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "runtime/migrate/training_state.h"

namespace trireme {

struct GatheredState {
  int64_t step = 0;  ///< steps done
  TrainingState state;
  std::string plan;          ///< that it was gathered under, in short
  double stall_seconds = 0;  ///< that the first worker spent on it
  int64_t samples = 0;  ///< that replicas that agree had seen, which may be more than at the step; 0: as the step says
  bool awaits_evaluation = false;  ///< the one that belongs to the step did not come to its end
};

/// One state at a time: the next one is gathered when the one before has been given back. Thread-safe.
class StateHandover {
 public:
  /// The first worker, before all gather: waits until no state is under way, or until `gives_up`. Returns the memory of
  /// an earlier one.
  TrainingState wait_for_turn(const std::function<bool()>& gives_up);
  /// Whether no state is under way.
  bool is_free() const;
  /// The memory of an earlier state, if it is free; waits for nothing.
  TrainingState take_used();
  /// The first worker, after either.
  void put(GatheredState gathered);

  /// What has been put and not been taken.
  std::optional<GatheredState> take();
  /// The state that was taken is not needed any more.
  void give_back(TrainingState used);

 private:
  mutable Mutex mutex_;
  ConditionVariable changed_;
  bool under_way_ TRIREME_GUARDED_BY(mutex_) = false;
  std::optional<GatheredState> gathered_ TRIREME_GUARDED_BY(mutex_);
  TrainingState used_ TRIREME_GUARDED_BY(mutex_);
};

}  // namespace trireme
