// The additional parts of a run whose plan has an agreement: the policy, the world through which replicas exchange, the
// samples of each replica, and the snapshots to be evaluated.
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
#include "metrics/early_stopping.h"
#include "metrics/result.h"
#include "program/program.h"
#include "runtime/agreement.h"
#include "runtime/migrate/migrate.h"
#include "runtime/step.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/agreement/replica_evaluator.h"
#include "train/agreement/replica_stops.h"
#include "train/state_handover.h"
#include "train/step_records.h"
#include "trireme/plan.h"
#include "trireme/policy.h"
#include "update/hub/hub_world.h"
#include "update/step_times.h"

namespace trireme {

class RunAgreement;
class SynchronousPolicy;
struct ReplicaGroup;
struct SnapshotShape;

/// Creates the world of a run whose replicas are not all in this process.
struct MakeReplicaWorld {
  /// Null: all replicas are in this process. When it is called, the agreement is complete except for its world.
  std::function<std::unique_ptr<HubWorld>(RunAgreement& agreement)> make = {};
  ReplicaHosting hosting = ReplicaHosting::threads;
};

/// Reasons for abort(). A run, and its processes, end normally after the first three (ends_well). The first two also
/// skip evaluations.
inline constexpr const char *kInterrupted = "interrupted", *kOutOfTime = "time_limit", *kDiverged = "diverged",
                            *kCheckpointFailed = "a checkpoint could not be written";
/// Reason with which a rank that received a signal to end ends all others at once. The run then ends normally too.
std::string interrupted_on(int rank);
/// Returns the rank that gave this reason; nullopt: it is another reason.
std::optional<int> rank_interrupted(const std::string& abort_reason);
bool ends_well(const std::string& abort_reason);

/// Each rank of `leaders` is the leader of one replica. `leaders` must outlive the run. Rank 0 evaluates and has the
/// result.
MakeReplicaWorld replicas_as_ranks(Communicator& leaders);

/// Returns the most bytes that a replica sends at once: weights, optimizer state and running statistics.
int64_t largest_exchange(const Experiment& experiment, const Model& model);

/// Thread-safe, except where noted. "Leader": called by the first worker of a replica.
class RunAgreement {
 public:
  /// References must outlive this object. `experiment`: with the batch of all replicas together. `make_world`: null if
  /// all replicas are threads of this process. `writes`: writes the checkpoints of the experiment. Errors (user).
  RunAgreement(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
               const Program& training, const Program& evaluation, StepRecords& records,
               const MakeReplicaWorld& make_world, bool writes, const AgreementBeginning& beginning);
  ~RunAgreement();

  UpdatePolicy& update() { return *update_; }
  const UpdatePolicy& update() const { return *update_; }
  const Model& model() const { return model_; }
  const TaskData& data() const { return data_; }
  int replicas() const { return plan_.replicas; }
  /// True if all replicas are threads of this process.
  bool are_all_here() const { return all_here_; }
  bool is_modelled() const { return experiment_.replicas.clock.has_value(); }

  // -- samples and lengths

  const ReplicaBatches& batches() const { return batches_; }
  PlannedBatch batch(int replica, int64_t step) const;
  /// 0: the policy decides.
  int64_t steps_of_replica(int replica) const;
  /// Steps of all replicas, divided by their number; 0: the policy decides.
  int64_t steps_of_run() const;
  /// Steps that the replica has made in an earlier run.
  int64_t begun_at(int replica) const { return begun_[size_t(replica)].steps; }
  double rate_at(int replica, int64_t step) const;

  // -- by the replicas that train in this process

  /// Leader. Creates the state that the replica's workers share to agree.
  std::unique_ptr<ReplicaAgreement> make_part(Hub& hub, ReplicaGroup& group);
  /// Leader. Call after_step after each step that was made, and end after the last one.
  void after_step(ReplicaGroup& group, int64_t step);
  void end(ReplicaGroup& group);
  /// Each worker for itself, after each step that was made. `load_seconds`: part of the outcome's compute_seconds.
  void note_inner(int worker, const StepOutcome& outcome, double load_seconds);

  // -- checkpoints

  /// Call it before the run, which resumes from `state`. Gives the groups their parts. Errors (user): the state belongs
  /// to another policy, to other options or to another number of replicas.
  void resume(TrainingState state, std::vector<std::unique_ptr<ReplicaGroup>>& groups);
  /// Decides where replicas stop for checkpoints.
  ReplicaStops& stops() { return stops_; }
  /// Leader. Blocks between two steps until all replicas have come. Takes no time of the modelled clock.
  void wait_for_all(ReplicaGroup& group);
  /// Leader. Call it when all replicas have stopped. Stores its replica's part of a checkpoint.
  void keep(ReplicaGroup& group, TrainingState state);
  /// Called by the first replica's leader after all replicas have stored their parts. Returns all parts. Waits for
  /// those of other processes. Errors (run): one of the processes has ended.
  TrainingState take_kept();
  /// Returns the steps of the run so far: those of all replicas, divided by their number.
  int64_t steps_so_far() const;
  /// Returns the samples of all replicas so far.
  int64_t samples() const;
  /// Returns the remainder of the earlier run's steps when those of all replicas are divided by their number.
  int64_t begun_rest() const;

  // -- evaluations during training: of a run that one of them may end, or that restores its best weights. The process
  // that has the run's result makes them.

  /// True if an evaluation after the replica's first `steps` steps may end the run for all replicas together. The same
  /// for all of them.
  bool may_end_together(int replica, int64_t steps) const;
  /// Waits until all evaluations that are due so far are made; returns at once if they come after training. Throws the
  /// first error of one of them.
  void wait_for_evaluations();
  /// Adds what the evaluations had shown when the state's parts were taken.
  GatheredState with_evaluations(GatheredState gathered) const;

  // -- by the server of replicas in other processes

  /// Called when a checkpoint of the server's state is due, and when replicas have finished training (`is_last`).
  /// takes_server_state returns whether a state can be taken; on_server_state receives it. Set both before work.
  std::function<bool(bool is_last)> takes_server_state;
  std::function<void(TrainingState state)> on_server_state;
  /// Takes a report of a replica (train/agreement/replica_reports.h). Returns the answer, a common stop
  /// (ReplicaStops::wanted). Errors (run): the report is invalid.
  int64_t take_report(int replica, Request report);
  /// Returns a replica in another process, whose process has received a signal to end; 0: none is known.
  int end_requested_by() const { return end_requested_by_; }
  /// Returns the first step that the replica has not made yet.
  int64_t next_step(int replica) const;

  // -- by the run's thread

  /// Trains all replicas of this process, each by `body`, and evaluates the snapshots: after training, or during it if
  /// replicas train in other processes. Throws the error with which a replica failed.
  void work(const std::function<void(Hub&)>& body);
  /// With kInterrupted or kOutOfTime, only the last of the remaining evaluations is made. Training that is over stays
  /// complete.
  void abort(const std::string& reason);
  /// Like abort, but at the next point where all replicas can stop (clients of rounds: the round's end), and with a
  /// result. Returns false if there is no such point; then only abort ends the run.
  bool stop(const std::string& reason);
  /// True if training is over and only evaluations remain.
  bool is_over() const;

  // -- after work has returned

  const std::vector<HubCounts>& counts() const { return counts_; }  ///< by replica; synchronous: by worker
  const std::vector<MemoryUse>& memory() const { return memory_; }  ///< by worker, in training
  /// By worker; of replicas that ended. Empty: each replica has one worker.
  const std::vector<InnerWork>& inner_work() const { return inner_work_; }
  /// Evaluations that were due and were not made.
  int64_t evaluations_left_out() const { return evaluator_.left_out(); }
  const TensorMap& weights() const {
    return evaluator_.weights();
  }  ///< the run's result; none where it did not come to its end
  /// Returns why an evaluation has ended the run before its length; "": none has.
  std::string ended_early() const;
  /// The evaluation whose weights weights() returns; nullopt: they are those of the end.
  std::optional<EvaluationPoint> best_evaluation() const;

 private:
  /// Called by the constructor, when no other thread exists.
  void begin_modelled_time() TRIREME_NO_THREAD_SAFETY_ANALYSIS;
  void follow_rounds();
  void note(int replica, const TrainedStep& step, bool decides);
  void keep_if_due(ReplicaGroup& group, int64_t step);
  void take(int replica, Request report);
  void end_for(int replica);
  double begun_of_client(int replica) const;
  void add_part(TrainingState part);
  int64_t samples_of_all(Hub& hub, const ReplicaGroup& group);
  void hand_over(Hub& hub, ReplicaSnapshot snapshot);
  void add_snapshot(ReplicaSnapshot snapshot);
  bool take_due(int64_t& samples);
  void keep_central_if_due(double seconds);
  void write_server_state(bool is_last);
  void keep_newest();
  void lift_memory_limits();
  /// Called by the constructor, when the world exists.
  void begin_watching(const AgreementBeginning& beginning, ReplicaHosting hosting);
  void take_evaluation(const StepRecord& record, const ReplicaSnapshot& snapshot);
  void end_for_evaluation();
  void evaluate_together(ReplicaGroup& group);
  void add_shown(TrainingState& part);
  SnapshotShape snapshot_shape() const;
  int64_t samples_of(const Length& length) const;  ///< of all replicas

  const RunSpec& experiment_;
  const Model& model_;
  const TaskData& data_;
  const Plan& plan_;
  const Program& training_;
  StepRecords& records_;
  const std::unique_ptr<UpdatePolicy> update_;
  /// The policy if it is synchronous: then there is one replica of all workers.
  const SynchronousPolicy* const synchronous_;
  const ReplicaBatches batches_;
  const int64_t begun_step_;                  ///< of an earlier run
  const std::vector<ReplicaProgress> begun_;  ///< by replica
  ReplicaStops stops_;
  std::unique_ptr<StepTimes> times_;
  std::unique_ptr<HubWorld> world_;
  bool policy_decides_length_ = false;
  const double begun_seconds_;  ///< of an earlier run
  const bool all_here_;
  bool has_ranks_ = false;        ///< a replica trains in this process, others in other processes
  bool evaluates_now_ = false;    ///< this process evaluates while replicas train
  bool waits_together_ = false;   ///< replicas that evaluate together wait for each evaluation
  int64_t evaluate_every_ = 0;    ///< samples of all replicas
  std::atomic<double> began_{0};  ///< time of replica 0's first step, on its hub's clock
  std::atomic<int> end_requested_by_{0};
  std::vector<double>
      client_began_;  ///< by the serving thread: first step of the client's present run, on the hubs' clock

  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
  std::string stop_reason_ TRIREME_GUARDED_BY(mutex_);
  bool over_ TRIREME_GUARDED_BY(mutex_) = false;
  int64_t samples_ TRIREME_GUARDED_BY(mutex_) = 0, next_evaluation_ TRIREME_GUARDED_BY(mutex_) = 0;
  std::set<int> lost_ TRIREME_GUARDED_BY(mutex_);  ///< replicas that have failed permanently
  int64_t samples_of_lost_ TRIREME_GUARDED_BY(mutex_) = 0;
  double last_end_ TRIREME_GUARDED_BY(mutex_) = 0;               ///< latest end of any step
  std::vector<PolicyState> resumed_ TRIREME_GUARDED_BY(mutex_);  ///< by replica; empty: the run does not resume
  TrainingState kept_ TRIREME_GUARDED_BY(mutex_);                ///< parts of a checkpoint
  int kept_parts_ TRIREME_GUARDED_BY(mutex_) = 0;                ///< number of replicas whose part is in it
  EarlyStopping stopping_ TRIREME_GUARDED_BY(mutex_);
  ShownByEvaluations shown_ TRIREME_GUARDED_BY(mutex_);             ///< so far
  ShownByEvaluations kept_shown_ TRIREME_GUARDED_BY(mutex_);        ///< when the parts of the checkpoint were taken
  std::optional<ReplicaSnapshot> best_ TRIREME_GUARDED_BY(mutex_);  ///< the values of shown_.best
  int64_t steps_ TRIREME_GUARDED_BY(mutex_) = 0;                    ///< of all replicas, in this run
  int64_t next_state_ TRIREME_GUARDED_BY(mutex_) = 0;  ///< samples at the next checkpoint of a server's state
  std::vector<int64_t> samples_of_replica_ TRIREME_GUARDED_BY(mutex_);
  std::vector<int64_t> next_step_ TRIREME_GUARDED_BY(mutex_);  ///< by replica

  std::vector<HubCounts> counts_;
  std::vector<MemoryUse> memory_;
  std::vector<InnerWork> inner_work_;  ///< each entry is written by its worker, or from its report
  ReplicaEvaluator evaluator_;
};

}  // namespace trireme
