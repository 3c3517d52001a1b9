// Several replicas that train by themselves and agree as an update policy says: on threads in real time, on a modelled clock, or in processes
// of their own, of which this one may be one replica, or the server of all.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "metrics/result.h"
#include "plan/plan.h"
#include "program/compile.h"
#include "train/replica_evaluator.h"
#include "train/sample_shares.h"
#include "update/hub.h"
#include "update/policy.h"
#include "update/step_times.h"

namespace trireme {

/// One step of one replica, in the order in which they ended.
struct ReplicaStep {
  int replica = 0;
  int64_t step = 0;       ///< 0-based, of the replica
  int64_t samples = 0;
  double loss_sum = 0;
  double begin = 0, end = 0;  ///< seconds on the hub's clock
};

struct Replica;
class SynchronousPolicy;
struct SnapshotShape;
class ReplicaRun;

/// Bytes that a replica sends at once, at most: weights, what the optimizer keeps and running statistics.
int64_t largest_exchange(const Experiment& experiment, const Model& model);

/// The world of a run whose replicas are not all in this process. The run is made but for its world.
using MakeReplicaWorld = std::function<std::unique_ptr<HubWorld>(ReplicaRun& run)>;

/// Belongs to one thread but for abort(), take_steps() and take_evaluations(), which any may call.
class ReplicaRun {
 public:
  /// `model` and `data` outlive it. `strategy`: the policy and its options (experiment/replica_spec.h); `workers`: of all replicas. Errors (user).
  /// `make_world`: null: all replicas are in this process.
  ReplicaRun(const Experiment& experiment, const Model& model, const TaskData& data, const std::string& strategy, int workers,
             const MakeReplicaWorld& make_world = {});
  ~ReplicaRun();

  // -- for the server of replicas in other processes
  UpdatePolicy& update() { return *update_; }
  const UpdatePolicy& update() const { return *update_; }
  const Model& model() const { return model_; }
  const TaskData& data() const { return data_; }
  /// From a replica (train/replica_reports.h). Errors (run): it cannot be one.
  void take_report(int replica, Request report);
  /// That the replica has not made yet.
  int64_t next_step(int replica) const;

  int replicas() const { return replicas_; }  ///< 1 of all workers where they average gradients in every step
  bool is_synchronous() const { return synchronous_ != nullptr; }
  const Plan& plan() const { return plan_; }  ///< of each replica
  const ReplicaBatches& batches() const { return batches_; }
  bool is_modelled() const { return experiment_.replicas.clock.has_value(); }
  int64_t steps() const { return steps_; }    ///< of replica 0; 0: the policy decides

  /// Trains, and evaluates what was kept on the way: afterwards, or where replicas train in other processes meanwhile. `stop`: asked between
  /// evaluations; when it is true the rest is left out. Throws what a replica failed with, unless it was aborted before.
  void work(const std::function<bool()>& stop);
  void abort(const std::string& reason);
  std::string abort_reason() const;

  /// Steps that have ended since the last call, after `seconds`, or sooner where there are no more: nothing and `over`.
  std::vector<ReplicaStep> take_steps(double seconds, bool& over);
  /// Evaluations since the last call. Any thread.
  std::vector<EvaluationPoint> take_evaluations() { return evaluator_.take(); }

  // -- once work has returned

  const std::vector<HubCounts>& counts() const { return counts_; }          ///< by replica; synchronous: by worker
  const std::vector<MemoryUse>& memory() const { return memory_; }          ///< by worker, of training
  const std::vector<EvaluationPoint>& evaluations() const { return evaluator_.all(); }
  const TensorMap& weights() const { return evaluator_.weights(); }  ///< the run's result; none where it did not come to its end

 private:
  void begin_modelled_time(int workers);
  ReplicaState state_of(Replica& replica) const;
  void run_replica(Hub& hub);
  void train_replica(Hub& hub, int rank, Replica& replica);
  bool lead_before(Hub& hub, Replica& replica, StepFacts& facts);
  void lead_after(Hub& hub, Replica& replica, const StepFacts& facts, double begin, double loss_sum);
  void end_replica(Hub& hub, Replica& replica);
  void keep_if_due(Hub& hub, Replica& replica, int64_t step);
  int64_t samples_of_all(Hub& hub, const Replica& replica);
  void hand_over(Hub& hub, ReplicaSnapshot snapshot);
  bool take_due(int64_t& samples);
  void keep_central_if_due(double seconds);
  void keep_newest();
  void note(const ReplicaStep& step);
  void lift_memory_limits();
  SnapshotShape snapshot_shape() const;
  int64_t steps_of_replica(int replica) const;
  int64_t samples_of(const Length& length) const;  ///< of all replicas
  int64_t samples() const;                         ///< so far
  double rate_at(int replica, int64_t step) const;

  const Experiment experiment_;  ///< with the batch of all replicas together
  const Model& model_;
  const TaskData& data_;
  const std::unique_ptr<UpdatePolicy> update_;
  const SynchronousPolicy* const synchronous_;  ///< the policy, where it is that: one replica of all workers
  const Plan plan_;
  const int replicas_;
  const Program training_, evaluation_;
  const ReplicaBatches batches_;
  std::unique_ptr<StepTimes> times_;
  std::unique_ptr<HubWorld> world_;
  int64_t steps_ = 0;
  int64_t evaluate_every_ = 0;  ///< samples of all replicas
  std::atomic<double> began_{0};  ///< replica 0's first step, on its hub's clock

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ReplicaStep> ended_;          // guarded by mutex_, as all that follows
  std::string abort_reason_;
  bool over_ = false;
  int64_t samples_ = 0, next_evaluation_ = 0;
  std::set<int> lost_;  ///< replicas that have failed for good
  int64_t samples_of_lost_ = 0;
  double last_end_ = 0;             ///< of any step
  std::vector<int64_t> next_step_;  ///< by replica

  std::vector<HubCounts> counts_;
  std::vector<MemoryUse> memory_;
  ReplicaEvaluator evaluator_;
};

}  // namespace trireme
