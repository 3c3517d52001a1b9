// Fills in the row of a run from its settings, its workers and its ending. Used by the thread that called train().
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <string>

#include "experiment/run_spec.h"
#include "metrics/result.h"
#include "train/observer.h"
#include "train/run.h"
#include "trireme/model.h"
#include "trireme/plan.h"

namespace trireme {

/// Why a run ended before its full length.
struct RunEnding {
  bool timed_out = false, interrupted = false;
  int ended_rank = 0;         ///< another rank than 0 that was interrupted; 0: none
  bool abandoned = false;     ///< workers were still busy after the waiting time that follows an interrupt
  int64_t diverged_step = 0;  ///< 0: never
  std::string diverged;       ///< what was not finite in that step, and on which rank
  /// Why the last evaluation ended the run before its length (EarlyStopping::reason); empty: it did not.
  std::string ended_early;
  int64_t diverged_test = 0;  ///< step of the last evaluation if its loss was not finite; else 0
};

// -- before the run

/// Adds warnings about a plan: more workers than cores or GPUs (`there`: their number), modelled times, and curves that
/// differ from one device's.
void add_plan_warnings(const Plan& plan, const Model& model, const RunSpec& experiment, int there, RunResult& result);

/// Adds warnings about settings that have less effect than stated.
void add_length_warnings(const Run& run, RunResult& result);

// -- after the run

/// Adds the plans to which the run changed, and their warnings.
void add_changes(const Run& run, const RunEnding& ending, RunResult& result);

/// Adds the memory of each device, and lifts the devices' memory limits.
void add_memory_use(const Run& run, const RunEnding& ending, RunResult& result);

/// Adds the prices of the modelled machines for the modelled time.
void add_virtual_prices(const RunSpec& experiment, RunResult& result);

/// Sets the row's status and reason. `checkpoint_failure`: the failure for which the run had to end. `steps`: of a full
/// run. A run that reached them, or ended early, is ok, even if the user or the time limit stopped it a moment later.
void describe_ending(const RunEnding& ending, const std::exception_ptr& error, const std::string& checkpoint_failure,
                     const Experiment& experiment, int64_t steps, RunResult& result);

/// Adds the results of replicas. Call it after describe_ending.
void add_replica_results(const RunAgreement& agreement, const Experiment& experiment, RunResult& result);

/// If the run restores the weights of its best evaluation, states which these are. Gives the observer the weights;
/// otherwise adds the reason why there are none to the row. If the disk is full, the run loses only the weights. Call
/// it after add_replica_results.
void hand_out_weights(const Run& run, const RunEnding& ending, TrainObserver& observer, RunResult& result);

/// Computes the final metrics from the trained weights, within a few seconds after the time limit if there is one.
/// `started`: the start of the run on the steady clock.
void add_final_metrics(const Run& run, double started, const std::atomic<bool>& interrupted, RunResult& result);

}  // namespace trireme
