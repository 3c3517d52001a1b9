// What a run has besides its plan's workers where the plan has an agreement: the policy, what replicas exchange
// through, which samples are whose, and what is kept on the way to be evaluated.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "experiment/replica_batches.h"
#include "experiment/run_spec.h"
#include "metrics/result.h"
#include "plan/plan.h"
#include "program/program.h"
#include "runtime/agreement.h"
#include "runtime/migrate/migrate.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/agreement/replica_evaluator.h"
#include "train/agreement/replica_stops.h"
#include "train/step_records.h"
#include "update/hub.h"
#include "update/policy.h"
#include "update/step_times.h"

namespace trireme {

class RunAgreement;
class SynchronousPolicy;
struct ReplicaGroup;
struct SnapshotShape;

/// The world of a run whose replicas are not all in this process.
struct MakeReplicaWorld {
  /// Null: they are. The agreement is made but for its world.
  std::function<std::unique_ptr<HubWorld>(RunAgreement& agreement)> make = {};
  ReplicaPlaces places = ReplicaPlaces::threads;
};

/// Reasons for abort() by which a run ends as it should, and its processes too. kInterrupted leaves out evaluations.
inline constexpr const char *kInterrupted = "interrupted", *kOutOfTime = "time_limit", *kDiverged = "diverged",
                            *kCheckpointFailed = "a checkpoint could not be written";
bool ends_well(const std::string& abort_reason);

/// Replicas whose leaders are the ranks of this communicator, which outlives the run; rank 0 evaluates and has the
/// result.
MakeReplicaWorld replicas_as_ranks(Communicator& leaders);

/// Bytes that a replica sends at once, at most: weights, what the optimizer keeps and running statistics.
int64_t largest_exchange(const Experiment& experiment, const Model& model);

/// Thread-safe but for what says otherwise. "Leader": called by the first worker of a replica.
class RunAgreement {
 public:
  /// All outlive it. `experiment`: with the batch of all replicas together. `make_world`: null: all replicas are
  /// threads of this process. `writes`: checkpoints, as the experiment says. Errors (user).
  RunAgreement(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
               const Program& training, const Program& evaluation, StepRecords& records,
               const MakeReplicaWorld& make_world, bool writes, const AgreementBeginning& beginning);
  ~RunAgreement();

  UpdatePolicy& update() { return *update_; }
  const UpdatePolicy& update() const { return *update_; }
  const Model& model() const { return model_; }
  const TaskData& data() const { return data_; }
  int replicas() const { return plan_.replicas; }
  /// Replicas are threads of this process.
  bool are_all_here() const { return all_here_; }
  bool is_modelled() const { return experiment_.replicas.clock.has_value(); }

  // -- samples and lengths

  const ReplicaBatches& batches() const { return batches_; }
  PlannedBatch batch(int replica, int64_t step) const;
  /// 0: the policy decides.
  int64_t steps_of_replica(int replica) const;
  /// Of all replicas, divided by their number; 0: the policy decides.
  int64_t steps_of_run() const;
  /// That the replica has made in an earlier run.
  int64_t begun_at(int replica) const { return begun_[size_t(replica)].steps; }
  double rate_at(int replica, int64_t step) const;

  // -- by the replicas that train in this process

  /// Leader. What its workers share to agree.
  std::unique_ptr<ReplicaAgreement> make_part(Hub& hub, ReplicaGroup& group);
  /// Leader, after each step that was made, and after the last one.
  void after_step(ReplicaGroup& group, int64_t step);
  void end(ReplicaGroup& group);

  // -- checkpoints

  /// Before the run, which goes on from it. Gives the groups their parts. Errors (user): the state is of another
  /// policy, of other options or of another number of replicas.
  void resume(TrainingState state, std::vector<std::unique_ptr<ReplicaGroup>>& groups);
  /// Where replicas stop for them.
  ReplicaStops& stops() { return stops_; }
  /// Leader: between two steps, until all replicas have come. Takes no time of the modelled clock.
  void wait_for_all(ReplicaGroup& group);
  /// Leader, when all replicas have come and none goes on: its replica's part of a checkpoint.
  void keep(ReplicaGroup& group, TrainingState state);
  /// The first replica's leader, when all have kept theirs: all parts. Waits for those of other processes. Errors
  /// (run): one has ended.
  TrainingState take_kept();
  /// Steps of the run so far: those of all replicas, divided by their number.
  int64_t steps_so_far() const;
  /// Likewise, of all replicas.
  int64_t samples() const;
  /// Steps of an earlier run that are left over when those of all replicas are divided by their number.
  int64_t begun_rest() const;

  // -- by the server of replicas in other processes

  /// Where a checkpoint of the server's state is due, and when replicas train no more (`is_last`): whether it can be
  /// taken, and it. Set before work.
  std::function<bool(bool is_last)> takes_server_state;
  std::function<void(TrainingState state)> on_server_state;
  /// From a replica (train/agreement/replica_reports.h). Errors (run): it cannot be one.
  void take_report(int replica, Request report);
  /// That the replica has not made yet.
  int64_t next_step(int replica) const;

  // -- by the run's thread

  /// Trains all replicas of this process, each by `body`, and evaluates what was kept on the way: afterwards, or where
  /// replicas train in other processes meanwhile. Throws what a replica failed with.
  void work(const std::function<void(Hub&)>& body);
  /// kInterrupted: of the evaluations that are left only the last one is made.
  void abort(const std::string& reason);
  /// The same at the next place where all replicas can stop, with a result. False: there is none; abort ends the run.
  bool stop(const std::string& reason);
  /// Whether training is over, and the rest is evaluations.
  bool is_over() const;

  // -- once work has returned

  const std::vector<HubCounts>& counts() const { return counts_; }  ///< by replica; synchronous: by worker
  const std::vector<MemoryUse>& memory() const { return memory_; }  ///< by worker, of training
  const TensorMap& weights() const {
    return evaluator_.weights();
  }  ///< the run's result; none where it did not come to its end

 private:
  void begin_modelled_time() TRIREME_NO_THREAD_SAFETY_ANALYSIS;  ///< by the constructor: there is no other thread yet
  void follow_rounds();
  void note(int replica, const TrainedStep& step, bool decides);
  void keep_if_due(ReplicaGroup& group, int64_t step);
  void add_part(TrainingState part);
  int64_t samples_of_all(Hub& hub, const ReplicaGroup& group);
  void hand_over(Hub& hub, ReplicaSnapshot snapshot);
  bool take_due(int64_t& samples);
  void keep_central_if_due(double seconds);
  void write_server_state(bool is_last);
  void keep_newest();
  void lift_memory_limits();
  SnapshotShape snapshot_shape() const;
  int64_t samples_of(const Length& length) const;  ///< of all replicas

  const RunSpec& experiment_;
  const Model& model_;
  const TaskData& data_;
  const Plan& plan_;
  const Program& training_;
  StepRecords& records_;
  const std::unique_ptr<UpdatePolicy> update_;
  const SynchronousPolicy* const synchronous_;  ///< the policy, where it is that: one replica of all workers
  const ReplicaBatches batches_;
  const int64_t begun_step_;                  ///< of an earlier run
  const std::vector<ReplicaProgress> begun_;  ///< by replica
  ReplicaStops stops_;
  std::unique_ptr<StepTimes> times_;
  std::unique_ptr<HubWorld> world_;
  bool policy_decides_length_ = false;
  const double begun_seconds_;  ///< of an earlier run
  const bool all_here_;
  bool has_ranks_ = false;        ///< a replica trains here, others in other processes
  int64_t evaluate_every_ = 0;    ///< samples of all replicas
  std::atomic<double> began_{0};  ///< replica 0's first step, on its hub's clock

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
  std::string stop_reason_ TRIREME_GUARDED_BY(mutex_);
  bool over_ TRIREME_GUARDED_BY(mutex_) = false;
  int64_t samples_ TRIREME_GUARDED_BY(mutex_) = 0, next_evaluation_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::set<int> lost_ TRIREME_GUARDED_BY(mutex_);  ///< replicas that have failed for good
  int64_t samples_of_lost_ TRIREME_GUARDED_BY(mutex_) = 0;
  double last_end_ TRIREME_GUARDED_BY(mutex_) = 0;               ///< of any step
  std::vector<PolicyState> resumed_ TRIREME_GUARDED_BY(mutex_);  ///< by replica; empty: the run begins
  TrainingState kept_ TRIREME_GUARDED_BY(mutex_);                ///< parts of a checkpoint
  int kept_parts_ TRIREME_GUARDED_BY(mutex_) = 0;                ///< replicas whose part is in it
  int64_t steps_ TRIREME_GUARDED_BY(mutex_) = 0;                 ///< of all replicas, in this run
  int64_t next_state_ TRIREME_GUARDED_BY(mutex_) = 0;            ///< samples; of a server's state
  std::vector<int64_t> samples_of_replica_ TRIREME_GUARDED_BY(mutex_);
  std::vector<int64_t> next_step_ TRIREME_GUARDED_BY(mutex_);  ///< by replica

  std::vector<HubCounts> counts_;
  std::vector<MemoryUse> memory_;
  ReplicaEvaluator evaluator_;
};

}  // namespace trireme
