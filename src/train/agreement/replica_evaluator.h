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

/// add() may be called by any thread; all other functions belong to one thread.
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

  /// From now on each snapshot is evaluated when it is added, by the evaluator's own threads.
  void start(Stop stop);
  void add(ReplicaSnapshot snapshot);
  /// Evaluates the remaining snapshots; no more may be added. Throws the first error of an evaluation.
  void finish(Stop stop);

  // -- after finish has returned

  /// Weights of the snapshot with the most samples; empty if there was no snapshot.
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
  std::exception_ptr error_;
  std::optional<ReplicaSnapshot> newest_;  ///< of the snapshots that were evaluated or skipped
  std::unique_ptr<TrainedWeights> weights_;
  int64_t left_out_ = 0;  ///< written by rank 0 of the evaluating workers

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<ReplicaSnapshot> waiting_ TRIREME_GUARDED_BY(mutex_);
  bool closed_ TRIREME_GUARDED_BY(mutex_) = false;
};

}  // namespace trireme
