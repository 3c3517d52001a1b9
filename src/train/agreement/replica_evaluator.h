// Evaluates the snapshots that a run of replicas takes: all of them after the run, so that no clock is disturbed, or
// during the run if the replicas train in other processes.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "experiment/experiment.h"
#include "experiment/replica_batches.h"
#include "metrics/result.h"
#include "program/program.h"
#include "train/step_records.h"
#include "train/trained_weights.h"
#include "trireme/hub.h"
#include "trireme/plan.h"

namespace trireme {

/// The run's weights at one time.
struct ReplicaSnapshot {
  int64_t samples = 0;  ///< of all replicas
  double seconds = 0;   ///< on the hub's clock
  ModelValues values;
  /// Where replicas keep local parameters: each one's own model, by replica. Then these are evaluated, not `values`.
  std::map<int, ModelValues> own = {};
};

/// add() and wait() may be called by any thread; all other functions belong to one thread.
class ReplicaEvaluator {
 public:
  /// Called between evaluations. If it returns true, all remaining evaluations but the last are skipped.
  using Stop = std::function<bool()>;

  /// References must outlive the evaluator, also `records`, to which evaluations are posted. `plan`: the plan of a
  /// replica; snapshots are divided as its workers hold the weights.
  struct Task {
    const Experiment& experiment;
    const Model& model;
    const Plan& plan;
    const Program& training;
    const Program& evaluation;
    const ReplicaBatches& batches;
  };
  ReplicaEvaluator(const Task& task, StepRecords& records) : task_(task), records_(records) {}
  ~ReplicaEvaluator();

  // -- set before start and finish

  /// Called by one of the evaluating threads after each evaluation, before it is posted.
  std::function<void(const StepRecord& evaluation, const ReplicaSnapshot& snapshot)> on_evaluated;
  /// Returns the snapshot whose weights are the result; nullopt, or not set: the one with the most samples.
  std::function<std::optional<ReplicaSnapshot>()> chosen;

  /// From now on each snapshot is evaluated when it is added, by the evaluator's own threads. Where these compute on
  /// the CPU, their memory is charged to devices from `first_device` on.
  void start(Stop stop, int first_device = 0);
  void add(ReplicaSnapshot snapshot);
  /// After start: waits until all snapshots that were added have been evaluated or skipped, or `gives_up` returns true.
  /// Throws the first error of an evaluation. Any thread may call it.
  void wait(const std::function<bool()>& gives_up);
  /// Evaluates the remaining snapshots; no more may be added. Throws the first error of an evaluation.
  void finish(Stop stop);

  // -- after finish has returned

  /// Weights of the result's snapshot; empty if there was no snapshot.
  const TensorMap& weights() const;
  /// Returns the number of evaluations that were skipped because of Stop.
  int64_t left_out() const { return left_out_; }

 private:
  struct EvaluationWorkers;
  void work();
  void work_as(int rank, EvaluationWorkers& workers);
  bool next(ReplicaSnapshot& snapshot, bool& is_last);
  void take_next(EvaluationWorkers& workers);
  void post(const ReplicaSnapshot& snapshot, const std::map<int, std::vector<StepOutcome>>& outcomes);
  void close();

  const Task task_;
  StepRecords& records_;
  Stop stop_;
  std::thread thread_;
  int first_device_ = 0;
  std::exception_ptr error_;
  std::optional<ReplicaSnapshot> newest_;  ///< of the snapshots that were evaluated or skipped
  bool newest_is_left_out_ = false;        ///< it was skipped: it was not known to be the last
  std::unique_ptr<TrainedWeights> weights_;
  int64_t left_out_ = 0;  ///< written by rank 0 of the evaluating workers

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<ReplicaSnapshot> waiting_ TRIREME_GUARDED_BY(mutex_);
  bool closed_ TRIREME_GUARDED_BY(mutex_) = false;
  bool has_failed_ TRIREME_GUARDED_BY(mutex_) = false;  ///< `error_` is set and stays
  int64_t added_ TRIREME_GUARDED_BY(mutex_) = 0;
  int64_t done_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< of the snapshots that were added
};

}  // namespace trireme
