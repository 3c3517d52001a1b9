// Rank 0's part of a run while workers train: reads their records, passes them on, and ends the run.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "train/adapter.h"
#include "train/coordinate/checkpointing.h"
#include "train/observer.h"
#include "train/result/run_result.h"
#include "train/run.h"
#include "train/summary.h"

namespace trireme {

/// Calls the adapter after each step and applies the change of plan that it requests.
class Adaptation {
 public:
  Adaptation(Run& run, Adapter* adapter) : run_(run), adapter_(adapter) {}

  void after_step(const StepRecord& entry, double seconds);
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Run& run_;
  Adapter* const adapter_;
  int plan_ = 0;  ///< number of plan changes, including a requested one
  std::vector<std::string> warnings_;
};

/// Reads the records of a run's steps and evaluations. One thread uses it. The objects it refers to must outlive it.
class Coordinator {
 public:
  struct Parts {
    Run& run;
    Summary& summary;
    TrainObserver& observer;
    Adaptation& adaptation;
    Checkpointing& checkpoints;
    EarlyStopping& stopping;               ///< gets each evaluation before `checkpoints` does
    const std::atomic<bool>& interrupted;  ///< by the user
  };

  /// `begun_at`: the point that earlier runs had reached. `waits_for_clients`: the time limit counts from the first
  /// step.
  Coordinator(const Parts& parts, const CurvePoint& begun_at, bool waits_for_clients);

  /// Returns when the workers have finished, and how they ended. Ends them when the time limit is reached, the loss is
  /// not finite any more, the observer has enough, or the user interrupts. Errors: those of the observer.
  RunEnding coordinate();

 private:
  void take_step(const StepRecord& entry);
  void take_evaluation(const StepRecord& entry);
  void end_if_checkpoints_fail();
  void end_if_interrupted();
  void abort_if_slow_to_end();
  bool is_out_of_time() const;
  void end_if_out_of_time(bool has_record);

  Parts parts_;
  Run& run_;
  RunAgreement* const agreement_;
  const CurvePoint begun_at_;
  CurvePoint previous_;  ///< newest point of the curve
  const double started_;
  const double clean_seconds_;  ///< after an interrupt
  double limited_from_;         ///< start of the time limit; 0: counted from the first step on
  double interrupted_at_ = 0;   ///< infinity: the observer has enough, and the workers may take their time
  double timed_out_at_ = 0;
  bool aborted_ = false;
  RunEnding ending_;
};

}  // namespace trireme
