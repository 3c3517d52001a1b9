// The workers of a run: the data that they share, and what each of them does, under one plan after another.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "base/devices/device.h"
#include "base/mutex.h"
#include "experiment/batches.h"
#include "experiment/loader.h"
#include "experiment/run_spec.h"
#include "metrics/early_stopping.h"
#include "metrics/result.h"
#include "program/compile.h"
#include "runtime/instruction_times.h"
#include "runtime/migrate/migrate.h"
#include "train/adapter.h"
#include "train/agreement/replica_group.h"
#include "train/agreement/run_agreement.h"
#include "train/process_rank.h"
#include "train/state_handover.h"
#include "train/step_records.h"
#include "train/trained_weights.h"
#include "trireme/plan.h"

namespace trireme {

/// Returns the LocalWorld of workers that are threads; in modelled time if the experiment has modelled machines.
LocalWorld world_of(const RunSpec& experiment, std::shared_ptr<EmulatedLinks> links, int threads);
/// Returns null if the workers run in real time.
std::unique_ptr<InstructionTimes> times_of(const RunSpec& experiment, const Model& model);

/// The workers under one plan, from one change of plan to the next.
struct Phase {
  /// `threads`: number of a replica's workers that are threads of this process.
  Phase(const RunSpec& experiment, const Model& model, Plan plan, std::vector<int> workers,
        const std::shared_ptr<EmulatedLinks>& links, int threads);

  /// Returns the worker of the run that has this rank.
  int worker(int rank) const { return workers.empty() ? rank : workers[size_t(rank)]; }

  const Plan plan;
  const std::vector<int> workers;  ///< by rank; empty: 0, 1, ...
  const Program training, evaluation;
  const std::unique_ptr<InstructionTimes> times;
  std::vector<std::unique_ptr<ReplicaGroup>> groups;  ///< by replica
  TrainedWeights weights;  ///< gathered at the end of the run, if a file or final metrics need them
  StateGatherer gatherer;  ///< gathers the state that the next plan's workers resume
  int64_t first_step = 0;
  bool ends_in_change = false;  ///< written by rank 0 between two barriers

  /// Ends the workers of all groups.
  void abort(const std::string& reason);
  /// The workers of a plan without an agreement.
  ReplicaGroup& only_group() const { return *groups.front(); }
};

/// The state that a run resumes.
struct ResumedState {
  int64_t step = 0;    ///< steps done
  double seconds = 0;  ///< duration of those steps
  TrainingState state;
  bool awaits_evaluation = false;  ///< the run begins with the evaluation that belongs to that step
  StoppingState stopping = {};     ///< what the evaluations of those steps have shown; rank 0 uses it
  /// The best of them, whose weights are in the state; rank 0 uses it.
  std::optional<EvaluationPoint> best = {};
  std::optional<TargetReached> reached = {};  ///< the first of them that reached the target; rank 0 uses it
};

struct RunOptions {
  /// The adapter changes the plan when memory shrinks; otherwise an allocation beyond the limit ends the run.
  bool adapts = false;
  bool writes_checkpoints = false;  ///< states are handed over as the experiment's [checkpoint] table says
  std::optional<ResumedState> resumed = {};
  MakeReplicaWorld make_world = {};  ///< of a plan with an agreement whose replicas are not all in this process
  /// This process is one rank of the plan, with private replicas; null: all workers are threads of this process. All
  /// ranks have the same other options (train/share_state.h).
  std::shared_ptr<ProcessRank> process = {};
};

/// Owns what the workers need. After an interrupt the workers may outlive train(), in the middle of a long layer.
/// work_all belongs to one thread; all other functions are thread-safe unless they say otherwise.
class Run {
 public:
  Run(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan, RunOptions options = {});

  ~Run() { stop_loading(); }  // its threads use other members

  const RunSpec experiment;
  const Model model;
  const TaskData data;
  const Batches batches;
  int64_t steps = 0;  ///< constant; under an agreement: RunAgreement::steps_of_run
  const int64_t evaluate_every;
  int64_t checkpoint_every;  ///< constant; in steps; 0: no states are handed over
  const int64_t begun_at;    ///< steps of earlier runs
  StepRecords records;
  StepGate gate;
  StateHandover handover;

  const BatchSampler& sampler() const { return batches.sampler(); }
  int64_t samples_in(int64_t step) const { return sampler().batch_size_at(step % sampler().steps_per_epoch()); }
  bool saves_weights() const;
  /// `step` is 0-based.
  bool evaluates_after(int64_t step) const { return (step + 1) % evaluate_every == 0 || step + 1 == steps; }
  /// True for the regular hand-overs. The last step is also handed over, wherever the run ends.
  bool hands_over_after(int64_t step) const { return checkpoint_every > 0 && (step + 1) % checkpoint_every == 0; }
  /// True if a hand-over may follow any step: replicas that agree stop where they can.
  bool hands_over_anywhere() const { return agreement_ && agreement_->stops().by_samples(); }
  /// Null: workers are threads.
  const ProcessRank* process() const { return process_.get(); }
  /// Null: the plan has no agreement.
  RunAgreement* agreement() const { return agreement_.get(); }

  /// Trains to the end, plan after plan, and closes the records. Never throws: see error().
  void work_all();

  /// Requests a change of plan after the step that the workers are in, unless it is the last step.
  void change_plan(PlanSwitch wanted);
  /// Returns what the workers measured of the links since the last call.
  std::optional<LinkEstimate> take_links();

  /// Ends the run after a step on which all workers agree, if possible; otherwise like abort, with `reason`.
  void stop(const std::string& reason);
  /// Ends all workers, whatever they are doing.
  void abort(const std::string& reason);
  void stop_loading();
  /// Returns the largest number of devices of any plan of the run.
  int devices() const;
  std::vector<PlanChange> changes() const;

  /// Empty: the run was not aborted.
  std::string abort_reason() const;

  // -- after work_all has returned
  std::exception_ptr error() const { return error_; }  ///< of the first worker that failed
  const Phase& last_phase() const { return *current_phase(); }
  const std::vector<Plan>& plans() const { return plans_; }  ///< in order
  const std::vector<MemoryUse>& memory() const {
    return agreement_ ? agreement_->memory() : memory_;
  }  ///< by rank, at the time when the rank had finished
  /// Those of the end, or of the best evaluation if the run restores them. Empty if the run has not reached its end, or
  /// if the weights are not needed.
  const TensorMap& trained_weights() const;
  /// The evaluation whose weights trained_weights() returns, with its step, loss and metrics; nullopt: they are those
  /// of the end.
  std::optional<EvaluationPoint> best_evaluation() const;

 private:
  std::function<std::vector<Range>(int64_t)> samples_of_process(const Phase& phase) const;
  void begin_phase(std::unique_ptr<Phase> phase);
  void begin_loading(const Phase& phase, ReplicaGroup& group, int64_t first_step);
  std::optional<PlannedBatch> next_batch(ReplicaGroup& group) const;
  StepInput training_input(const Phase& phase, ReplicaGroup& group, int rank, int64_t step) const;
  StepInput replica_input(const Phase& phase, ReplicaGroup& group, int rank, int64_t step) const;
  double load_seconds(ReplicaGroup& group, int rank) const;
  void train_replica(Phase& phase, Hub& hub);
  bool takes_server_state(bool is_last);
  bool stop_replica(Phase& phase, ReplicaGroup& group, int rank, Worker& worker, const ParameterStore& store,
                    int64_t step, bool held);
  bool hands_over_end(ReplicaGroup& group, int rank, Worker& worker);
  bool stop_together(Phase& phase, ReplicaGroup& group, int rank, Worker& worker, const ParameterStore& store);
  void hand_over_replica(Phase& phase, ReplicaGroup& group, int rank, Worker& worker, const ParameterStore& store,
                         int64_t step);
  void work_as_replica(Phase& phase, ReplicaGroup& group, int rank, ParameterStore& store);
  int64_t enforced_limit(int64_t step) const;
  /// `step`: number of finished steps.
  void evaluate(Phase& phase, int rank, Worker& worker, const ParameterStore& store, int64_t step);
  void keep_if_best(Phase& phase, int rank, Worker& worker, const ParameterStore& store, int64_t step);
  void resume_best(const std::optional<EvaluationPoint>& best);
  TrainingState with_best(TrainingState state) const;
  std::unique_ptr<Worker> make_worker(Phase& phase, ReplicaGroup& group, int rank, ParameterStore& store);
  void work(Phase& phase, int rank, Worker& worker, ParameterStore& store);
  bool keeps_whole_steps(const Phase& phase) const;
  void hand_over_alone(Phase& phase, Worker& worker);
  void hand_over(Phase& phase, int rank, Worker& worker, const ParameterStore& store, int64_t step);
  void gather_state(Phase& phase, int rank, Worker& worker, const ParameterStore& store);
  void work_as_process(Phase& phase, ParameterStore& store);
  bool ends_early() const { return experiment.early_stopping.wanted(); }
  bool enters(int64_t step) {
    if (!process_) return gate.enter(step);
    return process_->enters(gate, step, steps, !(ends_early() && evaluates_after(step)));
  }
  void end_if_due(const StepRecord& evaluation);
  void post(int rank, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds);
  void end_work(Phase& phase, int rank, Worker& worker, const ParameterStore& store);
  /// Index of the loader's reader for `rank`.
  int reader_of(int rank) const { return process_ ? 0 : rank; }
  bool changes_plan(Phase& phase, int rank, Worker& worker, int64_t step);
  std::shared_ptr<Phase> current_phase() const;
  void note_begin();
  void carry_state(const Phase& from, const Phase& to);
  std::vector<int> threads_of(const Phase& phase) const;

  const PlacedDevices places_;  ///< of this process' workers; first, so that it outlives them
  const bool adapts_;
  const bool evaluates_first_;                  ///< evaluate the step that the run resumes first
  const std::shared_ptr<EmulatedLinks> links_;  ///< null: no emulated links
  const std::shared_ptr<ProcessRank> process_;  ///< null: workers are threads
  /// Used by the thread that completes an evaluation, while no worker enters a step; so is the next member.
  EarlyStopping stopping_;
  std::optional<EvaluationPoint> newest_evaluation_;
  /// Written by rank 0's worker after evaluations. No tensors: there are none, or an update policy has them.
  struct Best {
    std::optional<EvaluationPoint> evaluation = {};
    TensorMap tensors = {};
  };
  Best best_;

  mutable Mutex mutex_;
  std::shared_ptr<Phase> phase_ TRIREME_GUARDED_BY(mutex_);  // replaced by the thread of work_all only
  std::string abort_reason_ TRIREME_GUARDED_BY(mutex_);
  std::optional<PlanSwitch> wanted_ TRIREME_GUARDED_BY(mutex_);
  std::optional<LinkEstimate> measured_links_ TRIREME_GUARDED_BY(mutex_);
  std::vector<PlanChange> changes_ TRIREME_GUARDED_BY(mutex_);
  int devices_ TRIREME_GUARDED_BY(mutex_) = 0;

  /// Of the first phase, which is then the only one; null: the plan has no agreement.
  std::unique_ptr<RunAgreement> agreement_;
  std::exception_ptr error_;
  std::vector<Plan> plans_;
  std::vector<MemoryUse> memory_;
  std::optional<TrainingState> state_;  ///< between two phases, and before the first one of a resumed run
  /// Rank 0: steps done when its state was last handed over, and when it last evaluated.
  int64_t handed_over_ = 0, evaluated_ = 0;
  PlanChange change_;  ///< the change in progress
  double change_began_ = 0;
};

}  // namespace trireme
