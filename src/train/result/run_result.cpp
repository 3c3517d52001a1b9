#include "train/result/run_result.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/counted.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "base/text.h"
#include "base/units.h"
#include "cost/money.h"
#include "experiment/batches.h"
#include "experiment/run_device.h"
#include "forecast/cost_source.h"
#include "plan/strategy.h"
#include "runtime/gradient_norms.h"
#include "schedule/kinds.h"
#include "train/final_metrics.h"
#include "train/verify.h"
#include "trireme/config.h"
#include "trireme/error.h"
#include "update/federated.h"

namespace trireme {
namespace {

// For final metrics beyond the time limit, so that a comparison waits little longer.
constexpr double kFinalSeconds = 10;

/// Returns why the run's weights cannot be saved; "" if they can.
std::string obstacle_to_saving(const Run& run, const RunEnding& ending) {
  if (!run.saves_weights())
    return fmt::format("they take {}; set save_weights = true to save more than {}",
                       format_bytes(bytes_of_weights(run.model, run.experiment.precision)),
                       format_bytes(kLargestSavedUnasked));
  if (ending.abandoned) return "the run was stopped in the middle of a step";
  if (!run.trained_weights().empty()) return "";
  const TrainedWeights& weights = run.last_phase().weights;
  return weights.failure().empty() ? "the run was stopped in the middle of a step" : weights.failure();
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

/// Adds a line about the range of the clients' own models. `own` is not empty, nor are its metrics.
void add_own_range(const std::vector<OwnEvaluation>& own, RunResult& result) {
  const auto less = [](const OwnEvaluation& a, const OwnEvaluation& b) {
    return a.metrics.front().value < b.metrics.front().value;
  };
  const auto [least, most] = std::minmax_element(own.begin(), own.end(), less);
  result.warnings.push_back(fmt::format(
      "test results are means over the own models of {}: {} from {} (client {}) to {} (client {}); the saved "
      "weights are the mean of these models",
      counted(int64_t(own.size()), "client"), kind_of_metric(least->metrics.front().name).title,
      metric_text(least->metrics.front()), least->replica, metric_text(most->metrics.front()), most->replica));
}

/// Adds the rounds, and what they have spent of the clients' privacy.
void add_rounds(const FederatedPolicy& policy, RunResult& result) {
  result.replicas->rounds = policy.rounds();
  result.replicas->privacy = policy.privacy();
  if (!result.replicas->privacy) return;
  const auto& [epsilon, delta] = *result.replicas->privacy;
  const PrivacyOptions& options = policy.options().privacy;
  result.warnings.push_back(
      fmt::format("differential privacy of each client: epsilon {:.3g} at delta {:.2g} after {}, for the weights, not "
                  "for the losses{}",
                  epsilon, delta, counted(int64_t(result.replicas->rounds.size()), "round"),
                  options.seed ? "; a party that knows noise_seed can subtract the noise" : ""));
}

}  // namespace

void add_plan_warnings(const Plan& plan, const Model& model, const RunSpec& experiment, int there, RunResult& result) {
  int busy = plan.workers() * experiment.threads;
  if (plan.agreement.empty()) {
    const auto threads = threads_of(experiment, plan.devices);
    busy = std::accumulate(threads.begin(), threads.end(), 0);
  }
  const std::optional<ModelledClock>& clock = experiment.replicas.clock;
  const bool is_modelled = experiment.virtual_machines || (clock && !plan.agreement.empty());
  const bool on_gpus = experiment.device != c10::DeviceType::CPU;
  if (on_gpus) busy = plan.workers();
  result.oversubscribed = busy > there && !is_modelled;
  if (clock && !plan.agreement.empty()) result.warnings.push_back("times are a model's: " + in_words(*clock));
  if (experiment.virtual_machines)
    result.warnings.push_back("times are a model's: " + experiment.virtual_machines_in_words);
  if (result.oversubscribed)
    result.warnings.emplace_back(fmt::format("{} {} share {}: their times cannot be compared, their curves can", busy,
                                             busy == plan.workers() ? "workers" : "threads",
                                             counted(there, on_gpus ? "GPU" : "core")));
  if (!plan.agreement.empty()) return;  // its curve is never one device's
  if (!find_schedule(plan.schedule, plan.name).flushes)
    result.warnings.emplace_back(
        fmt::format("schedule \"{}\" computes gradients with older weights: the curve differs from a single device's, "
                    "and with the stages (--plan with the run's plan.json repeats it)",
                    plan.schedule));
  if (experiment.micro_batches > 0 && experiment.micro_batches != plan.micro_batches)
    result.warnings.emplace_back(
        fmt::format("the experiment's micro_batches = {} is for pipelines only, and this plan has {}; to accumulate "
                    "gradients add them to the plan, as in {},micro_batches=4",
                    experiment.micro_batches, plan.micro_batches, usual_strategy()));
  if (plan.compression.kind == Compression::Kind::bf16_stored ||
      (plan.compression.kind != Compression::Kind::none && plan.devices > 1))
    result.warnings.emplace_back(
        fmt::format("compression \"{}\" rounds gradients: the curve differs from a single device's",
                    name_of(plan.compression.kind)));
  if (!has_batch_norm(model)) return;
  if (plan.micro_batches > 1)
    result.warnings.emplace_back(
        "batch norm takes its statistics per micro-batch: the curve differs from a single device's");
  if (plan.divides_batch() && experiment.batch_norm != BatchNormScope::global)
    result.warnings.emplace_back(
        fmt::format("batch_norm = \"{}\" takes statistics per data shard: the curve differs from a single device's",
                    name_of(experiment.batch_norm)));
}

void add_length_warnings(const Run& run, RunResult& result) {
  const int64_t samples = run.data.train->size();
  if (run.experiment.batch > samples)
    result.warnings.emplace_back(fmt::format(
        "batch = {} is more than the {} training samples: each step uses all of them", run.experiment.batch, samples));
  if (run.agreement()) {
    const ReplicaBatches& batches = run.agreement()->batches();
    if (const int64_t left_out = batches.left_out_of_epoch(); left_out > 0)
      result.warnings.push_back(fmt::format("each epoch leaves out its last {}: {} replicas cannot each have one{}",
                                            counted(left_out, "sample"), batches.replicas(),
                                            run.data.train->is_stream() ? "; in a text they are always the same" : ""));
    return;
  }
  const Length& warmup = run.experiment.schedule.warmup;
  const int64_t rising = warmup.count > 0 ? steps_of(warmup, run.sampler().steps_per_epoch()) : 0;
  if (rising > run.steps)
    result.warnings.emplace_back(fmt::format(
        "the warm-up of {} steps is longer than the run of {}: learning_rate is never reached", rising, run.steps));
  if (!run.experiment.noise_scale) return;
  if (const std::string obstacle = obstacle_to_gradient_norms(run.last_phase().training); !obstacle.empty())
    result.warnings.push_back("the gradient noise scale is not estimated: " + obstacle);
}

void add_changes(const Run& run, const RunEnding& ending, RunResult& result) {
  if (run.agreement()) return;
  result.changes = run.changes();
  result.devices = run.devices();
  for (const PlanChange& change : result.changes) result.plan += " -> " + change.to;
  if (ending.abandoned) return;  // the workers still use the plans
  for (size_t p = 1; p < run.plans().size(); ++p) {
    RunResult other;
    add_plan_warnings(run.plans()[p], run.model, run.experiment, inspect_machine(false).cores, other);
    result.oversubscribed |= other.oversubscribed;
    for (const std::string& warning : other.warnings)
      if (std::find(result.warnings.begin(), result.warnings.end(), warning) == result.warnings.end())
        result.warnings.push_back(warning);
  }
}

void add_memory_use(const Run& run, const RunEnding& ending, RunResult& result) {
  if (run.agreement()) {  // evaluations came after training
    if (!ending.abandoned) result.memory = run.memory();
    // Other processes that were ended have reported nothing.
    if (std::ranges::all_of(result.memory, [](const MemoryUse& use) { return use.peak == 0; })) result.memory.clear();
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

void add_virtual_prices(const RunSpec& experiment, RunResult& result) {
  if (!experiment.virtual_machines) return;
  const auto price = [&](double seconds) -> std::optional<double> {
    const std::optional<Money> money = price_of(experiment.virtual_machines->cluster, seconds);
    return money ? std::optional(money->amount) : std::nullopt;
  };
  if (result.epoch_seconds) result.price_per_epoch = price(*result.epoch_seconds);
  if (result.to_target) result.price_to_target = price(result.to_target->seconds);
}

namespace {

void note_early_end(const RunEnding& ending, int64_t steps, RunResult& result) {
  result.ended_early = ending.ended_early;
  if (ending.ended_early.empty()) return;
  const std::string of_all = steps > 0 ? fmt::format(" of {}", steps) : "";  // otherwise the policy decides
  result.warnings.push_back(
      fmt::format("ended early, after step {}{}: {}", result.evaluations.back().step, of_all, ending.ended_early));
}

}  // namespace

void describe_ending(const RunEnding& ending, const std::exception_ptr& error, const std::string& checkpoint_failure,
                     const Experiment& experiment, int64_t steps, RunResult& result) {
  const bool whole = steps > 0 && !result.evaluations.empty() && result.evaluations.back().step == steps;
  if ((whole || !ending.ended_early.empty()) && (!error || ending.interrupted) && ending.diverged_step == 0 &&
      ending.diverged_test == 0) {
    note_early_end(ending, steps, result);
    return;
  }
  try {
    if (error) std::rethrow_exception(error);
  } catch (const MemoryLimitError& error) {
    result.status = RunStatus::does_not_fit;
    result.reason = first_line(error);
  } catch (const c10::OutOfMemoryError& error) {  // of a GPU
    result.status = RunStatus::does_not_fit;
    result.reason = first_line(error);
  } catch (const std::exception& error) {
    result.status = RunStatus::failed;
    result.reason = first_line(error);
  }
  if (ending.interrupted) {
    result.status = RunStatus::interrupted;
    result.reason =
        ending.ended_rank > 0 ? fmt::format("rank {} received a signal to end", ending.ended_rank) : kStoppedByUser;
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

void add_replica_results(const RunAgreement& agreement, const Experiment& experiment, RunResult& result) {
  const bool all_lost = result.status == RunStatus::ok && agreement.weights().empty();
  if (all_lost) {
    result.status = RunStatus::failed;
    result.reason = "every replica was lost before the run had a result";
  }
  add_failures(experiment, all_lost, result);
  if (const int64_t left_out = agreement.evaluations_left_out(); left_out > 0 && result.status == RunStatus::ok)
    result.warnings.push_back(
        fmt::format("{} left out, because time_limit was reached or the run was stopped after training",
                    left_out == 1 ? "1 evaluation was" : fmt::format("{} evaluations were", left_out)));
  if (result.samples_per_second)
    result.epoch_seconds = double(agreement.data().train->size()) / *result.samples_per_second;
  if (!result.replicas) return;
  if (const auto* federated = dynamic_cast<const FederatedPolicy*>(&agreement.update())) add_rounds(*federated, result);
  add_refusals(*result.replicas, result);
  const std::vector<OwnEvaluation>& own = result.replicas->own;
  if (!own.empty() && !own.front().metrics.empty()) add_own_range(own, result);
}

namespace {

/// Sets the evaluation to which the weights belong, if the run restores those of its best one.
void note_best_weights(const Run& run, const RunEnding& ending, RunResult& result) {
  if (!run.experiment.early_stopping.restore_best || ending.abandoned) return;
  const std::optional<EvaluationPoint> best = run.best_evaluation();
  if (!best) {
    result.warnings.emplace_back("the weights are those of the end: no evaluation is the best one");
    return;
  }
  if (run.trained_weights().empty()) return;
  const auto same =
      std::find_if(result.evaluations.begin(), result.evaluations.end(),
                   [&](const EvaluationPoint& point) { return point.step == best->step && point.loss == best->loss; });
  result.weights_of_step = best->step;
  result.test = same == result.evaluations.end() ? *best : *same;  // the first: of an earlier run
  if (result.replicas) result.replicas->own = result.test->own;
  if (!result.evaluations.empty() && result.evaluations.back().step == best->step) return;
  const std::string value = best->main() ? metric_text(*best->main()) : fmt::format("loss {:.4g}", best->loss);
  result.warnings.push_back(
      fmt::format("the weights are those of step {}, the best evaluation (test {})", best->step, value));
}

}  // namespace

void hand_out_weights(const Run& run, const RunEnding& ending, TrainObserver& observer, RunResult& result) {
  note_best_weights(run, ending, result);
  const bool unwanted = run.experiment.save_weights.has_value() && !*run.experiment.save_weights;
  if (unwanted || (result.curve.empty() && run.trained_weights().empty())) return;
  std::string obstacle = obstacle_to_saving(run, ending);
  try {
    if (obstacle.empty()) {
      Weights file =
          weights_for_file(zoo_spec(run.experiment, run.data), run.model, run.trained_weights(), run.data.inputs.get());
      if (const std::filesystem::path& script = run.experiment.model_file; !script.empty())
        file.metadata[kScriptKey] = text_of(ScriptOrigin{std::filesystem::absolute(script), run.model.fingerprint(),
                                                         model_spec(run.experiment, *run.data.train)});
      observer.on_weights(file);
    }
  } catch (const std::exception& error) {
    obstacle = first_line(error);
  }
  if (!obstacle.empty()) result.warnings.push_back("the trained weights are not saved: " + obstacle);
}

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

}  // namespace trireme
