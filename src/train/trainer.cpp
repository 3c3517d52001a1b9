#include "train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "comm/flight_recorder.h"
#include "cost/money.h"
#include "experiment/batches.h"
#include "forecast/agreement_plan.h"
#include "forecast/drawing.h"
#include "forecast/predict.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "runtime/gradient_norms.h"
#include "schedule/schedule.h"
#include "train/checkpointing.h"
#include "train/final_metrics.h"
#include "train/run.h"
#include "train/share_state.h"
#include "train/summary.h"
#include "train/verify.h"
#include "update/federated.h"

namespace trireme {
namespace {

constexpr double kReaderPollSeconds = 0.05;
constexpr double kCleanSeconds = 0.5;  // after an interrupt, for workers to finish their step and hand out the weights
constexpr double kCleanSecondsToResume = 10;  // the same if a checkpoint of the trained steps must be written
constexpr double kWorkerPatienceSeconds = 1;  // after that, for workers to finish their current layer
// For final metrics beyond the time limit, so that a comparison waits little longer.
constexpr double kFinalSeconds = 10;

/// Why a run ended before its full length.
struct Ending {
  bool timed_out = false, interrupted = false;
  int asked_rank = 0;         ///< another rank than 0 that was interrupted; 0: none
  bool abandoned = false;     ///< workers were still busy after the waiting time that follows an interrupt
  int64_t diverged_step = 0;  ///< 0: never
  std::string diverged;       ///< what was not finite in that step, and on which rank
  int64_t diverged_test = 0;  ///< step of the last evaluation if its loss was not finite; else 0
};

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
                Ending& ending) {
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
    const int asked_rank = run.process() ? run.process()->other_asked_to_end() : 0;
    if ((interrupted || asked_rank > 0) && !ending.interrupted) {
      ending.interrupted = true;
      if (!interrupted) ending.asked_rank = asked_rank;
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

/// `checkpoint_failure`: the failure for which the run had to end. `steps`: of a full run. A run that reached them is
/// ok, even if the user or the time limit stopped it a moment later.
void describe_ending(const Ending& ending, const std::exception_ptr& error, const std::string& checkpoint_failure,
                     const Experiment& experiment, int64_t steps, RunResult& result) {
  const bool whole = steps > 0 && !result.evaluations.empty() && result.evaluations.back().step == steps;
  if (whole && (!error || ending.interrupted) && ending.diverged_step == 0 && ending.diverged_test == 0) return;
  try {
    if (error) std::rethrow_exception(error);
  } catch (const MemoryLimitError& error) {
    result.status = RunStatus::does_not_fit;
    result.reason = first_line(error);
  } catch (const std::exception& error) {
    result.status = RunStatus::failed;
    result.reason = first_line(error);
  }
  if (ending.interrupted) {
    result.status = RunStatus::interrupted;
    result.reason = ending.asked_rank > 0 ? fmt::format("rank {} was asked to end, by a signal", ending.asked_rank)
                                          : "stopped by the user";
  } else if (ending.diverged_step > 0) {
    result.status = RunStatus::failed;
    result.reason = fmt::format("diverged: {}; lower the learning rate or set clip_norm", ending.diverged);
  } else if (ending.diverged_test > 0 && result.status == RunStatus::ok) {
    result.status = RunStatus::failed;
    result.reason =
        fmt::format("diverged: the test loss after step {} is not finite; lower the learning rate or set clip_norm",
                    ending.diverged_test);
  } else if (!checkpoint_failure.empty() && result.status == RunStatus::ok) {
    result.status = RunStatus::failed;
    result.reason = checkpoint_failure;
  } else if (ending.timed_out && result.status == RunStatus::ok) {
    result.status = RunStatus::timed_out;
    result.reason = fmt::format("time_limit = {} reached", format_seconds(experiment.time_limit));
  }
}

/// Returns why the run's weights cannot be saved; "" if they can.
std::string obstacle_to_saving(const Run& run, const Ending& ending) {
  if (!run.saves_weights())
    return fmt::format("they take {}; set save_weights = true to save more than {}",
                       format_bytes(bytes_of_weights(run.model, run.experiment.precision)),
                       format_bytes(kLargestSavedUnasked));
  if (ending.abandoned) return "the run was stopped in the middle of a step";
  if (!run.trained_weights().empty()) return "";
  const TrainedWeights& weights = run.last_phase().weights;
  return weights.failure().empty() ? "the run was stopped in the middle of a step" : weights.failure();
}

/// Gives the observer the trained weights; otherwise adds the reason why there are none to the row. A full disk costs
/// the run nothing but the weights.
void hand_out_weights(const Run& run, const Ending& ending, TrainObserver& observer, RunResult& result) {
  const bool unwanted = run.experiment.save_weights.has_value() && !*run.experiment.save_weights;
  if (unwanted || (result.curve.empty() && run.trained_weights().empty())) return;
  std::string obstacle = obstacle_to_saving(run, ending);
  try {
    if (obstacle.empty())
      observer.on_weights(weights_for_file(zoo_spec(run.experiment, run.data), run.model, run.trained_weights()));
  } catch (const std::exception& error) {
    obstacle = first_line(error);
  }
  if (!obstacle.empty()) result.warnings.push_back("the trained weights are not saved: " + obstacle);
}

/// Computes the final metrics from the trained weights, within a few seconds after the time limit if there is one.
void add_final_metrics(const Run& run, double started, const std::atomic<bool>& interrupted, RunResult& result) {
  const TensorMap& weights = run.trained_weights();
  if (weights.empty()) return;
  const double limit = run.experiment.time_limit;
  bool too_late = false;
  const auto stop = [&] {
    too_late = too_late || (limit > 0 && steady_seconds() - started > limit + kFinalSeconds);
    return too_late || interrupted;
  };
  try {
    result.final_metrics = final_metrics(run.experiment, run.model, run.data, weights, stop);
  } catch (const std::exception& error) {
    result.warnings.push_back("the final metrics are missing: " + first_line(error));
  }
  if (too_late) result.warnings.emplace_back("time_limit left no time for the final metrics");
}

std::string in_words(const ModelledClock& clock) {
  if (clock.cluster)
    return fmt::format("steps and links of cluster {} by its datasheets, an approximation", clock.cluster->name);
  if (clock.profile) return "steps by the profile of the layers, exchanges by the links of [update.virtual]";
  return fmt::format("{}{}{}, exchanges by the links of [update.virtual]",
                     clock.step_seconds > 0 ? format_seconds(clock.step_seconds) + " a step" : "",
                     clock.step_seconds > 0 && clock.sample_seconds > 0 ? " and " : "",
                     clock.sample_seconds > 0 ? format_seconds(clock.sample_seconds) + " a sample" : "");
}

void add_warnings(const Plan& plan, const Model& model, const RunSpec& experiment, int cores, RunResult& result) {
  int busy = plan.workers() * experiment.threads;
  if (plan.agreement.empty()) {
    const auto threads = threads_of(experiment, plan.devices);
    busy = std::accumulate(threads.begin(), threads.end(), 0);
  }
  const std::optional<ModelledClock>& clock = experiment.replicas.clock;
  const bool is_modelled = experiment.virtual_machines || (clock && !plan.agreement.empty());
  result.oversubscribed = busy > cores && !is_modelled;
  if (clock && !plan.agreement.empty()) result.warnings.push_back("times are a model's: " + in_words(*clock));
  if (experiment.virtual_machines)
    result.warnings.push_back("times are a model's: " + experiment.virtual_machines_in_words);
  if (result.oversubscribed)
    result.warnings.emplace_back(fmt::format("{} {} share {} cores: their times cannot be compared, their curves can",
                                             busy, busy == plan.workers() ? "workers" : "threads", cores));
  if (!plan.agreement.empty()) return;  // its curve is never one device's
  if (!find_schedule(plan.schedule, plan.name).flushes)
    result.warnings.emplace_back(
        fmt::format("schedule \"{}\" computes gradients with older weights: the curve differs from a single device's",
                    plan.schedule));
  if (experiment.micro_batches > 0 && experiment.micro_batches != plan.micro_batches)
    result.warnings.emplace_back(
        fmt::format("the experiment's micro_batches = {} is for pipelines only, and this plan has {}; to accumulate "
                    "gradients add them to the plan, as in {},micro_batches=4",
                    experiment.micro_batches, plan.micro_batches, usual_strategy()));
  if (plan.compression.kind != Compression::Kind::none && plan.devices > 1)
    result.warnings.emplace_back(
        fmt::format("compression \"{}\" rounds gradients: the curve differs from a single device's",
                    name_of(plan.compression.kind)));
  if (!has_batch_norm(model)) return;
  if (plan.micro_batches > 1)
    result.warnings.emplace_back(
        "batch norm takes its statistics per micro-batch: the curve differs from a single device's");
  if (has_data_shards(plan) && experiment.batch_norm != BatchNormScope::global)
    result.warnings.emplace_back(
        fmt::format("batch_norm = \"{}\" takes statistics per data shard: the curve differs from a single device's",
                    name_of(experiment.batch_norm)));
}

/// Prices of the modelled machines for the modelled time.
void add_virtual_prices(const RunSpec& experiment, RunResult& result) {
  if (!experiment.virtual_machines) return;
  const auto price = [&](double seconds) -> std::optional<double> {
    const std::optional<Money> money = price_of(experiment.virtual_machines->cluster, seconds);
    return money ? std::optional(money->amount) : std::nullopt;
  };
  if (result.epoch_seconds) result.price_per_epoch = price(*result.epoch_seconds);
  if (result.to_target) result.price_to_target = price(result.to_target->seconds);
}

/// Adds the plans to which the run changed, and their warnings.
void add_changes(const Run& run, const Ending& ending, RunResult& result) {
  if (run.agreement()) return;
  result.changes = run.changes();
  result.devices = run.devices();
  for (const PlanChange& change : result.changes) result.plan += " -> " + change.to;
  if (ending.abandoned) return;  // the workers still use the plans
  for (size_t p = 1; p < run.plans().size(); ++p) {
    RunResult other;
    add_warnings(run.plans()[p], run.model, run.experiment, inspect_machine(false).cores, other);
    result.oversubscribed |= other.oversubscribed;
    for (const std::string& warning : other.warnings)
      if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end())
        result.warnings.push_back(warning);
  }
}

void add_memory(const Run& run, const Ending& ending, RunResult& result) {
  if (run.agreement()) {  // evaluations came after training
    if (!ending.abandoned) result.memory = run.memory();
    return;
  }
  if (run.process()) {  // if the run did not reach its end, nothing is known about other ranks
    if (!ending.abandoned && !run.error()) result.memory = run.memory();
    set_memory_limit(run.process()->rank(), 0);
    return;
  }
  for (int d = 0; d < run.devices(); ++d) {
    result.memory.push_back(memory_use(d));
    if (!ending.abandoned) result.memory.back().current = run.memory()[size_t(d)].current;
    set_memory_limit(d, 0);
  }
}

/// Adds the failures that happened in the run: `all`, or those before its last step.
void add_failures(const Experiment& experiment, bool all, RunResult& result) {
  if (!experiment.replicas.clock) return;
  for (const Failure& failure : experiment.replicas.clock->failures) {
    if (!all && (result.curve.empty() || failure.at >= result.curve.back().seconds)) continue;
    result.warnings.push_back(
        fmt::format("worker {} failed after {} and {}", failure.replica, format_seconds(failure.at),
                    std::isinf(failure.back_after) ? "did not come back"
                                                   : "was back " + format_seconds(failure.back_after) + " later"));
  }
}

/// Adds warnings about clients' updates that are not in the weights.
void add_refusals(const ReplicaReport& report, RunResult& result) {
  int refused = 0, late = 0;
  std::set<int> clients;
  for (const RoundRecord& round : report.rounds) {
    refused += round.refused;
    late += round.late;
    clients.insert(round.refused_clients.begin(), round.refused_clients.end());
  }
  if (refused > 0)
    result.warnings.push_back(fmt::format("{} updates were refused because they were not finite: of client {}", refused,
                                          fmt::join(clients, ", ")));
  if (late > 0)
    result.warnings.push_back(fmt::format("{} answers came after the end of their round and were not used", late));
}

/// Adds the results of replicas, after the run has ended and its ending has been described.
void add_replicas(const RunAgreement& agreement, const Experiment& experiment, RunResult& result) {
  const bool all_lost = result.status == RunStatus::ok && agreement.weights().empty();
  if (all_lost) {
    result.status = RunStatus::failed;
    result.reason = "every replica was lost before the run had a result";
  }
  add_failures(experiment, all_lost, result);
  if (result.samples_per_second)
    result.epoch_seconds = double(agreement.batches().samples_per_epoch()) / *result.samples_per_second;
  if (!result.replicas) return;
  if (const auto* federated = dynamic_cast<const FederatedPolicy*>(&agreement.update()))
    result.replicas->rounds = federated->rounds();
  add_refusals(*result.replicas, result);
}

/// Adds warnings about settings that have less effect than stated.
void add_length_warnings(const Run& run, RunResult& result) {
  const int64_t samples = run.data.train->size();
  if (run.experiment.batch > samples)
    result.warnings.emplace_back(fmt::format(
        "batch = {} is more than the {} training samples: each step uses all of them", run.experiment.batch, samples));
  if (run.agreement()) return;
  const Length& warmup = run.experiment.schedule.warmup;
  const int64_t rising = warmup.count > 0 ? steps_of(warmup, run.sampler().steps_per_epoch()) : 0;
  if (rising > run.steps)
    result.warnings.emplace_back(fmt::format(
        "the warm-up of {} steps is longer than the run of {}: learning_rate is never reached", rising, run.steps));
  if (!run.experiment.noise_scale) return;
  if (const std::string obstacle = obstacle_to_gradient_norms(run.last_phase().training); !obstacle.empty())
    result.warnings.push_back("the gradient noise scale is not estimated: " + obstacle);
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
    add_warnings(plan, model, experiment, process ? process->cores() : inspect_machine(false).cores, result);

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
  Ending ending;
  Adaptation adaptation(*run, adapter);
  Checkpointing written(*run, checkpoints, observer);
  const double started = steady_seconds();
  std::thread workers([run] { run->work_all(); });
  try {
    coordinate(*run, summary, observer, adaptation, written, begun_at, make_world.places == ReplicaPlaces::clients,
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
  add_memory(*run, ending, result);
  if (agrees && !ending.abandoned) summary.write(run->agreement()->counts(), result);
  else summary.write(result);
  add_virtual_prices(experiment, result);
  written.write(result);
  describe_ending(ending, ending.abandoned ? nullptr : run->error(), written.failure(), experiment, run->steps, result);
  const bool another_ended =
      leaders && !ending.interrupted && !ending.timed_out && run->agreement()->stops().has_ended();
  if (another_ended || (leaders && !ending.interrupted && process->abort_reason() == kInterrupted)) {
    result.status = RunStatus::interrupted;
    result.reason = "another rank was asked to end, by a signal";
  }
  if (agrees) add_replicas(*run->agreement(), experiment, result);
  const bool ended_well = result.status == RunStatus::ok || result.status == RunStatus::timed_out;
  if (ended_well || result.status == RunStatus::interrupted) hand_out_weights(*run, ending, observer, result);
  if (ended_well) add_final_metrics(*run, started, interrupted, result);
  return result;
}

}  // namespace trireme
