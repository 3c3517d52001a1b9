// Evaluates what a run of replicas kept on its way: all of it when the run is over, so that no clock is disturbed, or,
// where others train, while it goes on.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "experiment/batches.h"
#include "experiment/experiment.h"
#include "metrics/result.h"
#include "plan/plan.h"
#include "program/program.h"
#include "train/step_records.h"
#include "train/trained_weights.h"
#include "update/replica_state.h"

namespace trireme {

/// The run's weights at a moment.
struct ReplicaSnapshot {
  int64_t samples = 0;  ///< of all replicas
  double seconds = 0;   ///< on the hub's clock
  ModelValues values;
};

/// add may be called by any thread, all else belongs to one.
class ReplicaEvaluator {
 public:
  /// Asked between evaluations; when it is true the rest is left out, but for the last one.
  using Stop = std::function<bool()>;

  /// All outlive it, the records too, which evaluations are posted to. `plan`: of a replica, as which snapshots are
  /// cut.
  struct Task {
    const Experiment& experiment;
    const Model& model;
    const TaskData& data;
    const Plan& plan;
    const Program& training;
    const Program& evaluation;
    const Batches& batches;
  };
  ReplicaEvaluator(const Task& task, StepRecords& records) : task_(task), records_(records) {}
  ~ReplicaEvaluator();

  /// From here on a snapshot is evaluated when it comes, by threads of this.
  void start(Stop stop);
  void add(ReplicaSnapshot snapshot);
  /// Evaluates what is left; there is nothing more to come. Throws what evaluations failed with.
  void finish(Stop stop);

  // -- once finish has returned

  /// Of the snapshot with most samples; none where there was none.
  const TensorMap& weights() const;

 private:
  struct EvaluationWorkers;
  void work();
  void work_as(int rank, EvaluationWorkers& workers);
  bool next(ReplicaSnapshot& snapshot, bool& is_last);
  void post(const ReplicaSnapshot& snapshot, std::vector<StepOutcome> outcomes);
  void close();

  const Task task_;
  StepRecords& records_;
  Stop stop_;
  std::thread thread_;
  std::exception_ptr error_;
  std::optional<ReplicaSnapshot> newest_;  ///< of those that were evaluated or left out
  std::unique_ptr<TrainedWeights> weights_;

  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<ReplicaSnapshot> waiting_ TRIREME_GUARDED_BY(mutex_);
  bool closed_ TRIREME_GUARDED_BY(mutex_) = false;
};

}  // namespace trireme
