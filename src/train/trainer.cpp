#include "train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/machine.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "comm/backend_list.h"
#include "comm/flight_recorder.h"
#include "experiment/batches.h"
#include "forecast/agreement_plan.h"
#include "forecast/drawing.h"
#include "forecast/predict.h"
#include "plan/named.h"
#include "train/checkpointing.h"
#include "train/result/run_result.h"
#include "train/run.h"
#include "train/share_state.h"
#include "train/summary.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kReaderPollSeconds = 0.05;
constexpr double kCleanSeconds = 0.5;  // after an interrupt, for workers to finish their step and hand out the weights
constexpr double kCleanSecondsToResume = 10;  // the same if a checkpoint of the trained steps must be written
constexpr double kWorkerPatienceSeconds = 1;  // after that, for workers to finish their current layer

/// `begun_at`: the point that earlier runs had reached.
StepReport step_report(const CurvePoint& point, const Summary& summary, const Run& run, const CurvePoint& begun_at,
                       double started) {
  StepReport report;
  report.point = point;
  report.total_steps = run.steps;
  if (const RunAgreement* agreement = run.agreement()) {
    report.step_seconds = point.seconds / double(point.step);
    report.samples_per_second = point.seconds > 0 ? double(point.samples) / point.seconds : 0;
    const bool is_known = !agreement->is_modelled() && run.steps > 0;
    report.seconds_left = is_known ? report.step_seconds * double(std::max<int64_t>(0, run.steps - point.step)) : 0;
    return report;
  }
  report.step_seconds = summary.last_step_seconds();
  report.samples_per_second = double(point.samples - begun_at.samples) / (point.seconds - begun_at.seconds);
  // The time of evaluations so far is spread over the steps so far.
  report.seconds_left =
      (steady_seconds() - started) / double(point.step - begun_at.step) * double(run.steps - point.step);
  return report;
}

/// Returns what is not finite in a finished step; "" if everything is finite. The loss is reported first, because
/// gradients follow from it. `loss`: of all workers.
std::string not_finite_in(const StepRecord& entry, double loss) {
  std::vector<size_t> bad;
  size_t counting = 0;
  const StepOutcome* first = nullptr;
  for (const StepOutcome& outcome : entry.outcomes) {
    counting += outcome.loss_sum != 0;
    if (!std::isfinite(outcome.loss_sum)) bad.push_back(size_t(&outcome - entry.outcomes.data()));
    if (!outcome.not_finite.empty() && (!first || outcome.not_finite_at < first->not_finite_at)) first = &outcome;
  }
  if (!std::isfinite(loss)) {
    const std::string whose =
        bad.empty() || bad.size() == counting ? "" : fmt::format(" on rank {}", fmt::join(bad, ", "));
    return fmt::format("the loss of step {} is not finite{}", entry.step, whose);
  }
  if (!first) return "";
  return fmt::format("rank {}'s gradient of {} is not finite in step {}", first - entry.outcomes.data(),
                     first->not_finite, entry.step);
}

/// The same for a replica that would spoil the other replicas' weights.
std::string not_finite_of_replica(const StepRecord& entry, const RunAgreement& agreement) {
  if (std::isfinite(entry.loss_sum()) || agreement.update().refuses_broken_values()) return "";
  return fmt::format("the loss of a replica's step {} is not finite", entry.step);
}

/// Calls the adapter after each step and applies the change of plan that it requests.
class Adaptation {
 public:
  Adaptation(Run& run, Adapter* adapter) : run_(run), adapter_(adapter) {}

  void after_step(const StepRecord& entry, double seconds) {
    if (!adapter_ || entry.plan < plan_) return;  // the requested change is still pending
    const RunSpec& e = run_.experiment;
    MeasuredStep step{.step = entry.step,
                      .steps_left = run_.steps - entry.step,
                      .seconds = seconds,
                      .plan = entry.plan,
                      .links = run_.take_links(),
                      .memory = memory_limit_at(e.memory_changes, e.device_memory, entry.step)};
    for (size_t rank = 0; rank < entry.outcomes.size(); ++rank)
      step.compute.push_back(std::max(0.0, entry.outcomes[rank].compute_seconds - entry.load_seconds[rank]));
    Adapter::Wish wish = adapter_->after_step(step);
    if (!wish.warning.empty()) warnings_.push_back(std::move(wish.warning));
    if (wish.links) run_.gate.request_probe();
    if (!wish.change) return;
    plan_ = entry.plan + 1;
    run_.change_plan(std::move(*wish.change));
  }

  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Run& run_;
  Adapter* const adapter_;
  int plan_ = 0;  ///< number of plan changes, including a requested one
  std::vector<std::string> warnings_;
};

/// Reads the records until the workers have finished, and passes them to the observer. Ends the workers when the time
/// limit is reached, the loss is not finite any more, or the user interrupts.
void coordinate(Run& run, Summary& summary, TrainObserver& observer, Adaptation& adaptation, Checkpointing& checkpoints,
                const CurvePoint& begun_at, bool waits_for_clients, const std::atomic<bool>& interrupted,
                RunEnding& ending) {
  const double started = steady_seconds(), clean_seconds = checkpoints.writes() ? kCleanSecondsToResume : kCleanSeconds;
  RunAgreement* const agreement = run.agreement();
  double interrupted_at = 0, timed_out_at = 0;
  double limited_from = waits_for_clients ? 0 : started;  // 0: counted from the first step on
  bool aborted = false;
  while (true) {
    bool timed_out_waiting = false;
    auto entry = run.records.next(kReaderPollSeconds, timed_out_waiting);
    if (entry && entry->evaluation) {
      ending.diverged_test = std::isfinite(entry->loss_sum()) || agreement ? 0 : entry->step;
      const EvaluationPoint point = summary.add_evaluation(*entry);
      observer.on_evaluation(point);
      checkpoints.after_evaluation(point);
    } else if (entry) {
      const std::optional<CurvePoint> point =
          summary.add_step(*entry, agreement ? entry->samples : run.samples_in(entry->step - 1));
      if (point) observer.on_step(step_report(*point, summary, run, begun_at, started));
      if (point) checkpoints.after_step(*point);
      adaptation.after_step(*entry, summary.last_step_seconds());
      if (ending.diverged_step == 0)
        ending.diverged = agreement ? not_finite_of_replica(*entry, *agreement) : not_finite_in(*entry, point->loss);
      if (!ending.diverged.empty() && ending.diverged_step == 0) {
        ending.diverged_step = entry->step;
        if (agreement) run.abort(kDiverged);
        else run.gate.stop();
      }
    } else if (!timed_out_waiting) {
      return;
    }
    checkpoints.poll();
    if (!checkpoints.failure().empty() && agreement) run.abort(kCheckpointFailed);
    else if (!checkpoints.failure().empty()) run.gate.stop();
    const int ended_rank = run.process() ? run.process()->other_end_requested() : 0;
    if ((interrupted || ended_rank > 0) && !ending.interrupted) {
      ending.interrupted = true;
      if (!interrupted) ending.ended_rank = ended_rank;
      interrupted_at = steady_seconds();
      run.stop(kInterrupted);
    }
    if (agreement && agreement->is_over()) continue;
    if (agreement && ending.timed_out && !aborted && steady_seconds() - timed_out_at > kCleanSecondsToResume) {
      aborted = true;
      run.abort(kOutOfTime);
    }
    if (ending.interrupted && !aborted && steady_seconds() - interrupted_at > clean_seconds) {
      aborted = true;
      run.abort(kInterrupted);
    }
    if (agreement && ending.interrupted) continue;  // the remaining work is short
    if (ending.interrupted && steady_seconds() - interrupted_at > clean_seconds + kWorkerPatienceSeconds) {
      ending.abandoned = true;
      return;
    }
    if (entry && limited_from == 0) limited_from = steady_seconds();
    if (!ending.timed_out && run.experiment.time_limit > 0 && limited_from > 0 &&
        steady_seconds() - limited_from > run.experiment.time_limit) {
      ending.timed_out = true;
      timed_out_at = steady_seconds();
      run.stop(kOutOfTime);
    }
  }
}

}  // namespace

RunResult train(const RunSpec& given, const Model& model, const TaskData& data, const Plan& plan,
                TrainObserver& observer, const std::atomic<bool>& interrupted, Adapter* adapter,
                CheckpointUse checkpoints, const std::shared_ptr<ProcessRank>& process,
                const MakeReplicaWorld& make_world) {
  const RunSpec experiment = whole_experiment(given, plan);
  validate(plan, model, std::max<int64_t>(1, experiment.batch / plan.replicas), fmt::format("plan {}", plan.name));
  check_shapes(experiment, model, data, plan);
  install_memory_accounting();
  RunResult result;
  result.strategy = family_of(plan.name);
  result.name = plan.name;
  result.plan = plan.in_short(model);
  result.devices = plan.workers();
  result.blocks = block_strategies(plan, model);
  result.warnings = experiment.model_findings.notes;
  if (process) result.backend = process->backend();
  if (!experiment.virtual_machines_in_words.empty()) result.backend = kVirtualBackend.name;
  if (!make_world.make)
    add_plan_warnings(plan, model, experiment, process ? process->cores() : inspect_machine(false).cores, result);

  MakeReplicaWorld world_of_replicas = make_world;
  const std::unique_ptr<Communicator> leaders =
      process && !plan.agreement.empty() ? process->worker_communicator() : nullptr;
  if (leaders) world_of_replicas = replicas_as_ranks(*leaders);
  RunOptions options{.adapts = adapter != nullptr,
                     .writes_checkpoints = !checkpoints.folder.empty(),
                     .resumed = {},
                     .make_world = world_of_replicas,
                     .process = process};
  CurvePoint begun_at;
  if (checkpoints.resumed) {
    const CheckpointIndex& index = checkpoints.resumed->index;
    begun_at = {index.step, index.samples, index.seconds, index.loss};
    options.resumed = {index.step, index.seconds, std::move(checkpoints.resumed->state), index.awaits_evaluation};
  }
  if (!checkpoints.folder.empty() && plan.agreement.empty()) check_checkpoints(experiment, data, plan);
  if (process) share_beginning(options);
  if (leaders) options.process.reset();
  auto run = std::make_shared<Run>(experiment, model, data, plan, std::move(options));
  add_length_warnings(*run, result);
  if (plan.stages.size() > 1 || plan.micro_batches > 1)
    result.schedule = std::make_shared<const nlohmann::json>(short_drawing(run->last_phase().training, model));
  const bool agrees = run->agreement() != nullptr;
  Summary summary(run->experiment, {data.train->task(), data.train->classes()}, plan.devices,
                  agrees ? data.train->size() : run->sampler().samples_per_epoch(), run->batches.test_samples(),
                  run->steps, agrees ? plan.replicas : 0);
  summary.go_on_from(begun_at.samples, begun_at.seconds, begun_at.step, agrees ? run->agreement()->begun_rest() : 0);
  RunEnding ending;
  Adaptation adaptation(*run, adapter);
  Checkpointing written(*run, checkpoints, observer);
  const double started = steady_seconds();
  std::thread workers([run] { run->work_all(); });
  try {
    coordinate(*run, summary, observer, adaptation, written, begun_at, make_world.hosting == ReplicaHosting::clients,
               interrupted, ending);
  } catch (...) {  // an observer that cannot continue (disk full) ends the run
    run->abort("the run's observer failed");
    workers.join();
    throw;
  }
  run->stop_loading();
  if (ending.abandoned) workers.detach();
  else workers.join();
  if (!ending.abandoned) {
    const LongWork saving(run->error() && process ? flight_recorder(process->world()) : nullptr, kSavingLastStep);
    written.finish();
  }
  add_changes(*run, ending, result);
  result.warnings.insert(result.warnings.end(), adaptation.warnings().begin(), adaptation.warnings().end());
  add_memory_use(*run, ending, result);
  if (agrees && !ending.abandoned) summary.write(run->agreement()->counts(), result);
  else summary.write(result);
  add_virtual_prices(experiment, result);
  written.write(result);
  describe_ending(ending, ending.abandoned ? nullptr : run->error(), written.failure(), experiment, run->steps, result);
  const bool another_ended =
      leaders && !ending.interrupted && !ending.timed_out && run->agreement()->stops().has_ended();
  if (another_ended || (leaders && !ending.interrupted && process->abort_reason() == kInterrupted)) {
    result.status = RunStatus::interrupted;
    result.reason = "another rank received a signal to end";
  }
  if (agrees) add_replica_results(*run->agreement(), experiment, result);
  const bool ended_well = result.status == RunStatus::ok || result.status == RunStatus::timed_out;
  if (ended_well || result.status == RunStatus::interrupted) hand_out_weights(*run, ending, observer, result);
  if (ended_well) add_final_metrics(*run, started, interrupted, result);
  return result;
}

}  // namespace trireme
