#include "cli/process_plan.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/devices/gpu.h"
#include "base/mutex.h"
#include "cli/exit_codes.h"
#include "cli/launched_rows.h"
#include "cli/plan_choice.h"
#include "cli/process_gpus.h"
#include "cli/train_checkpoints.h"
#include "comm/flight_recorder.h"
#include "comm/rendezvous/text_messages.h"
#include "experiment/batches.h"
#include "experiment/make_plan.h"
#include "experiment/replica_spec.h"
#include "forecast/agreement_plan.h"
#include "metrics/result.h"
#include "report/progress.h"
#include "train/agreement/early_end.h"
#include "train/follower_rank.h"
#include "train/measure_step.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kForOthers = std::chrono::seconds(1);

/// While it exists, an interrupt of this rank ends all ranks, also during a trial: nothing has been trained yet that
/// could be saved. Rank 0 may measure layers for seconds without a look at the interrupt. So this object ends the
/// process if the work of rank 0 has not ended shortly after.
class EndIfInterrupted {
 public:
  explicit EndIfInterrupted(std::shared_ptr<ProcessRank> process)
      : process_(std::move(process)), thread_([this] { watch(); }) {}
  ~EndIfInterrupted() {
    {
      MutexLock lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  EndIfInterrupted(const EndIfInterrupted&) = delete;
  EndIfInterrupted& operator=(const EndIfInterrupted&) = delete;

 private:
  void watch() {
    MutexLock lock(mutex_);
    while (!over_ && !interrupted_by_user()) changed_.wait_for(mutex_, kPoll);
    if (over_) return;
    process_->abort(fmt::format("rank {} was interrupted", process_->rank()));
    if (process_->rank() > 0) return;
    const auto until = std::chrono::steady_clock::now() + kForOthers;  // they read the reason from this rank's keys
    while (!over_ && std::chrono::steady_clock::now() < until) changed_.wait_for(mutex_, kPoll);
    if (over_) return;
    std::cerr << "trireme: rank 0 was interrupted before the training began\n" << std::flush;
    std::_Exit(kRunFailed);
  }

  const std::shared_ptr<ProcessRank> process_;
  Mutex mutex_;
  ConditionVariable changed_;
  bool over_ TRIREME_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// The data of a rank while rank 0 chooses the plan.
class Planning {
 public:
  Planning(const TrainOptions& options, const BackendKind& backend, std::shared_ptr<ProcessRank> process,
           const TrainSubject& subject)
      : options_(options),
        backend_(backend),
        process_(std::move(process)),
        subject_(subject),
        trial_(as_trial(without_emulation(subject.experiment))) {}

  /// Rank 0.
  Plan choose() {
    Plan plan = checked_plan();
    announce(plan, /*is_trial=*/false);
    return plan;
  }

  /// The other ranks: take part in trials until rank 0 has chosen.
  Plan follow() {
    while (true) {
      const json said = json::parse(broadcast_text(process_->world(), ""));
      Plan plan = plan_from_json(said.at("plan"), subject_.model, "rank 0's plan");
      connect(plan);
      if (!said.at("is_trial")) return plan;
      run_follower_rank(trial_, subject_.model, subject_.data, plan, process_, interrupted_by_user());
    }
  }

  /// Rank 0: measures a step of the plan that the user named; the other ranks call follow().
  TrialStep measure_named() {
    const Plan plan = choose_plan(options_.plan, {}, subject_.experiment, subject_.model);
    TrialStep step = measure(plan);
    announce(plan, /*is_trial=*/false);
    return step;
  }

  /// Describes how tensors travel under the last plan.
  const std::string& way() const { return way_; }

 private:
  Plan checked_plan();
  TrialStep measure(const Plan& plan);
  void announce(const Plan& plan, bool is_trial) {
    broadcast_text(process_->world(), json{{"plan", to_json(plan, subject_.model)}, {"is_trial", is_trial}}.dump());
    connect(plan);
  }
  void connect(const Plan& plan) { way_ = connect_gpus(*process_, subject_.experiment, plan, backend_); }

  const TrainOptions& options_;
  const BackendKind& backend_;
  const std::shared_ptr<ProcessRank> process_;
  const TrainSubject& subject_;
  const RunSpec trial_;  ///< the experiment of trial steps
  std::string way_;
};

/// Measures a step of the plan with all ranks, or with this one if it is for one worker. Errors (user): the plan does
/// not suit the model; nothing is sent to the other ranks then.
TrialStep Planning::measure(const Plan& plan) {
  const auto& [experiment, data, model] = subject_;
  if (interrupted_by_user()) return {.why_not = kStoppedByUser};
  validate(plan, model, experiment.batch, fmt::format("plan {}", plan.name));
  check_shapes(experiment, model, data, plan);
  release_kept_gpu_memory();
  if (plan.devices == 1)  // the others wait
    return measure_step(as_threads(trial_), model, data, plan, kTrialSeconds, interrupted_by_user());
  announce(plan, /*is_trial=*/true);
  return measure_step(trial_, model, data, plan, kTrialSeconds, interrupted_by_user(), process_);
}

Plan Planning::checked_plan() {
  const RunSpec& experiment = subject_.experiment;
  const Model& model = subject_.model;
  const LongWork planning(flight_recorder(process_->world()), "planning");  // may also measure a profile
  Progress progress;
  const ShownPhase shown(progress, "planning");
  const PlanTrials trials{[this](const Plan& plan) { return measure(plan); }, &progress};
  const bool agrees = is_update_policy(options_.plan) && !is_plan_file(options_.plan);
  Plan plan =
      agrees ? plan_with_agreement(options_.plan, experiment, model,
                                   process_->size() * devices_of_replica(options_.plan, experiment))
             : choose_or_find_plan(options_.plan, {}, experiment, model, subject_.data, options_.prediction, &trials);
  if (!plan.agreement.empty() && experiment.replicas.clock)
    fail_user({experiment.where("update.virtual"), "processes run in real time", "",
               "leave it out, or train in one process"});
  release_kept_gpu_memory();  // measurements for the plan may have used the other processes' GPUs
  const int processes = plan.agreement.empty() ? plan.devices : plan.replicas;
  if (processes != process_->size())
    fail_user({"--plan", options_.plan,
               fmt::format("it is for {} {}, and there are {} processes", processes,
                           plan.agreement.empty() ? "workers" : "replicas", process_->size()),
               "start as many, or choose another plan"});
  check_batch(experiment, subject_.data);
  check_shapes(experiment, model, subject_.data, plan);
  check_early_stopping(experiment, subject_.data, plan, ReplicaHosting::processes);
  if (!plan.agreement.empty() && experiment.elastic)
    fail_user({experiment.where("elastic"), plan.name,
               "its number of replicas is fixed, but groups of processes differ in size",
               "leave it out; trireme launch train --resume resumes the run"});
  if (!options_.is_row()) check_train_checkpoints(options_, experiment, subject_.data, plan);
  return plan;
}

}  // namespace

Plan plan_of_processes(const TrainOptions& options, const BackendKind& backend,
                       const std::shared_ptr<ProcessRank>& process, const TrainSubject& subject, std::string& through) {
  const EndIfInterrupted watch(process);
  Planning planning(options, backend, process, subject);
  Plan plan = process->rank() == 0 ? planning.choose() : planning.follow();
  if (!planning.way().empty()) through += ", " + planning.way();
  return plan;
}

void measure_for_comparison(const TrainOptions& options, const BackendKind& backend,
                            const std::shared_ptr<ProcessRank>& process, const TrainSubject& subject) {
  const EndIfInterrupted watch(process);
  const bool leads = process->rank() == 0;
  if (options.measure == kMeasureMachines) {
    const ProcessMachines machines = process->measure_machines();
    if (leads) std::cout << machines_message(machines) << std::endl;
    return;
  }
  Planning planning(options, backend, process, subject);
  if (!leads) planning.follow();
  else std::cout << trial_message(planning.measure_named()) << std::endl;
}

}  // namespace trireme
