#include "train/trainer.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/machine.h"
#include "base/memory.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "profile/layer_times.h"
#include "program/compile.h"
#include "program/schedules/schedule.h"
#include "runtime/crew.h"
#include "runtime/gradient_pieces.h"
#include "train/batches.h"
#include "train/final_metrics.h"
#include "train/ledger.h"
#include "train/loader.h"
#include "train/picture.h"
#include "train/summary.h"
#include "train/trained_weights.h"
#include "train/verify.h"

namespace trireme {
namespace {

constexpr double kPollSeconds = 0.05;
constexpr double kCleanSeconds = 0.5;    // after an interrupt, for workers to finish their step and hand out the weights
constexpr double kPatienceSeconds = 1;   // after that, for workers to finish the layer they are in
constexpr double kFinalSeconds = 10;     // for final metrics beyond the time limit: a comparison waits little longer
constexpr int64_t kTracedStep = 10;  // or the last one of a shorter run

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Everything that the workers of a run share. Owns what it needs: workers in the middle of a long layer may outlive train()
/// after an interrupt.
struct Run {
  const Experiment experiment;
  const Model model;
  const TaskData data;
  const Plan plan;
  Program training, evaluation;
  const Batches batches;
  int64_t steps, evaluate_every;
  Ledger ledger;
  StepGate gate;
  LocalWorld world;
  std::vector<MemoryUse> memory;  ///< by rank, when the rank was through
  std::exception_ptr error;       ///< of the first worker that failed; read after the ledger is closed
  TrainedWeights weights;         ///< gathered where a file or final metrics need them
  int64_t next_step = 0;          ///< of next_batch
  int64_t next_test;              ///< of next_batch
  Loader loader;                  ///< last: its threads end first

  Run(const Experiment& e, const Model& m, const TaskData& d, const Plan& p)
      : experiment(e), model(m), data(d), plan(p), training(compile(model, plan, compile_options(experiment, true))),
        evaluation(compile(model, plan, compile_options(experiment, false))),
        batches(experiment, data), steps(steps_of(e.length, sampler().steps_per_epoch())),
        evaluate_every(steps_of(e.evaluate_every, sampler().steps_per_epoch())), ledger(p.devices), world(p.devices),
        memory(size_t(p.devices)), weights(training, model), next_test(batches.evaluations()),
        loader([this] { return next_batch(); }, {.threads = loading_threads_of(experiment, *data.train), .readers = p.devices},
               [this] { return world.abort_reason(); }) {}

  const BatchSampler& sampler() const { return batches.sampler(); }
  int64_t samples_in(int64_t step) const { return sampler().batch_size_at(step % sampler().steps_per_epoch()); }
  bool evaluates_after(int64_t step) const { return (step + 1) % evaluate_every == 0 || step + 1 == steps; }

  /// The batches of the run in the order in which every worker takes them: each step's, and after steps with an evaluation the test
  /// set's.
  std::optional<PlannedBatch> next_batch() {
    if (next_test < batches.evaluations()) return batches.evaluation(next_test++);
    if (next_step == steps) return std::nullopt;
    if (evaluates_after(next_step)) next_test = 0;
    return batches.training(next_step++);
  }

  StepInput training_input(int rank, int64_t step) {
    return {.step = step,
            .batch = loader.take(rank),
            .learning_rate = learning_rate_at(experiment, step, steps, sampler().steps_per_epoch()),
            .clip_norm = experiment.clip_norm,
            .trace = step == std::min(kTracedStep, steps - 1),
            .starts_stream = sampler().starts_anew(step % sampler().steps_per_epoch())};
  }

  bool saves_weights() const {
    return experiment.save_weights.value_or(bytes_of_weights(model, experiment.precision) <= kLargestSavedUnasked);
  }

  StepOutcome evaluate(int rank, Worker& worker) {
    StepOutcome sum;
    for (int64_t k = 0; k < batches.evaluations(); ++k) {
      const bool anew = k == 0 || !data.test->is_stream();
      StepOutcome part = worker.evaluate({.batch = loader.take(rank), .starts_stream = anew});
      // nothing else holds a first stage back: its activations would pile up in front of the second
      if (plan.stages.size() > 1) worker.barrier();
      sum.loss_sum += part.loss_sum;
      for (const auto& [name, value] : part.metrics) sum.metrics[name] += value;
    }
    return sum;
  }

  void work(int rank, ParameterStore& store) {
    Worker worker(rank, model, &training, &evaluation, store, world,
                  {.seed = experiment.seed, .batch_norm = experiment.batch_norm, .optimizer = experiment.optimizer,
                   .gradient_norms = experiment.noise_scale && obstacle_to_gradient_norms(training).empty()});
    for (int64_t step = 0; step < steps && gate.enter(step); ++step) {
      StepOutcome outcome = worker.train(training_input(rank, step));
      ledger.post(rank, step + 1, false, std::move(outcome), loader.take_load_seconds(rank));
      if (!evaluates_after(step)) continue;
      worker.drain();
      ledger.post(rank, step + 1, true, evaluate(rank, worker));
      loader.take_load_seconds(rank);  // an evaluation is no part of training time
    }
    worker.drain();
    if (saves_weights() || has_final_metrics(data)) weights.gather(rank, worker, store);
    memory[size_t(rank)] = memory_use(rank);
  }

  void work_all() {
    try {
      ParameterStore store(training, experiment.precision);
      run_crew(world, [&](int rank) { work(rank, store); }, threads_of(experiment, plan.devices));
    } catch (...) {
      error = std::current_exception();
    }
    ledger.close();
  }
};

/// Why a run ended before its length.
struct Ending {
  bool timed_out = false, interrupted = false;
  bool abandoned = false;     ///< workers were still busy when the user's patience ended
  int64_t diverged_step = 0;  ///< 0: never
  int64_t diverged_test = 0;  ///< step of the last evaluation if its loss was not finite; else 0
};

StepReport step_report(const CurvePoint& point, const Summary& summary, const Run& run, double started) {
  StepReport report;
  report.point = point;
  report.total_steps = run.steps;
  report.step_seconds = summary.last_step_seconds();
  report.samples_per_second = double(point.samples) / point.seconds;
  // evaluation so far is spread over the steps so far
  report.seconds_left = (now() - started) / double(point.step) * double(run.steps - point.step);
  return report;
}

/// Reads the ledger until the workers are through, telling the observer, and ends them when time is up, the loss is no number any
/// more, or the user asks.
void coordinate(Run& run, Summary& summary, TrainObserver& observer, const std::atomic<bool>& interrupted, Ending& ending) {
  const double started = now();
  double interrupted_at = 0;
  bool aborted = false;
  while (true) {
    bool timed_out_waiting = false;
    auto entry = run.ledger.next(kPollSeconds, timed_out_waiting);
    if (entry && entry->evaluation) {
      ending.diverged_test = std::isfinite(entry->loss_sum()) ? 0 : entry->step;
      observer.on_evaluation(summary.add_evaluation(*entry));
    } else if (entry) {
      CurvePoint point = summary.add_step(*entry, run.samples_in(entry->step - 1));
      observer.on_step(step_report(point, summary, run, started));
      if (!std::isfinite(point.loss) && ending.diverged_step == 0) {
        ending.diverged_step = point.step;
        run.gate.stop();
      }
    } else if (!timed_out_waiting) {
      return;
    }
    if (interrupted && !ending.interrupted) {
      ending.interrupted = true;
      interrupted_at = now();
      run.gate.stop();
    }
    if (ending.interrupted && !aborted && now() - interrupted_at > kCleanSeconds) {
      aborted = true;
      run.world.abort("interrupted");
    }
    if (ending.interrupted && now() - interrupted_at > kCleanSeconds + kPatienceSeconds) {
      ending.abandoned = true;
      return;
    }
    if (!ending.timed_out && run.experiment.time_limit > 0 && now() - started > run.experiment.time_limit) {
      ending.timed_out = true;
      run.gate.stop();
    }
  }
}

/// `steps`: of a whole run. One that got there is ok, even if the user or the clock said stop a moment later.
void describe_ending(const Ending& ending, const std::exception_ptr& error, const Experiment& experiment, int64_t steps,
                     RunResult& result) {
  const bool whole = !result.evaluations.empty() && result.evaluations.back().step == steps;
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
    result.reason = "stopped by the user";
  } else if (ending.diverged_step > 0) {
    result.status = RunStatus::failed;
    result.reason = fmt::format("diverged: the loss of step {} is not finite; lower the learning rate or set clip_norm",
                                ending.diverged_step);
  } else if (ending.diverged_test > 0 && result.status == RunStatus::ok) {
    result.status = RunStatus::failed;
    result.reason = fmt::format("diverged: the test loss after step {} is not finite; lower the learning rate or set clip_norm",
                                ending.diverged_test);
  } else if (ending.timed_out && result.status == RunStatus::ok) {
    result.status = RunStatus::timed_out;
    result.reason = fmt::format("time_limit = {} reached", format_seconds(experiment.time_limit));
  }
}

/// Why the run's weights cannot be saved; "" where they can.
std::string obstacle_to_saving(const Run& run, const Ending& ending) {
  if (!run.saves_weights())
    return fmt::format("they take {}; save_weights = true saves more than {}",
                       format_bytes(bytes_of_weights(run.model, run.experiment.precision)), format_bytes(kLargestSavedUnasked));
  if (!ending.abandoned && !run.weights.tensors().empty()) return "";
  return ending.abandoned || run.weights.failure().empty() ? "the run was stopped in the middle of a step" : run.weights.failure();
}

/// Gives the observer the trained weights, or the row the reason why there are none: a full disk takes nothing else from a run.
void hand_out_weights(const Run& run, const Ending& ending, TrainObserver& observer, RunResult& result) {
  const bool unwanted = run.experiment.save_weights.has_value() && !*run.experiment.save_weights;
  if (unwanted || result.curve.empty()) return;
  std::string obstacle = obstacle_to_saving(run, ending);
  try {
    if (obstacle.empty()) observer.on_weights(weights_for_file(zoo_spec(run.experiment, run.data), run.model, run.weights.tensors()));
  } catch (const std::exception& error) {
    obstacle = first_line(error);
  }
  if (!obstacle.empty()) result.warnings.push_back("the trained weights are not saved: " + obstacle);
}

/// What is measured of the trained weights after training, within a few seconds of the time limit where there is one.
void add_final_metrics(const Run& run, double started, const std::atomic<bool>& interrupted, RunResult& result) {
  if (run.weights.tensors().empty()) return;
  const double limit = run.experiment.time_limit;
  bool too_late = false;
  const auto stop = [&] {
    too_late = too_late || (limit > 0 && now() - started > limit + kFinalSeconds);
    return too_late || interrupted;
  };
  try {
    result.final_metrics = final_metrics(run.experiment, run.model, run.data, run.weights.tensors(), stop);
  } catch (const std::exception& error) {
    result.warnings.push_back("metrics that are taken after training are missing: " + first_line(error));
  }
  if (too_late) result.warnings.emplace_back("time_limit left no time for the metrics that are taken after training");
}

void add_warnings(const Plan& plan, const Model& model, const Experiment& experiment, RunResult& result) {
  result.warnings = experiment.model_notes;
  const int cores = inspect_machine(false).cores;
  const auto threads = threads_of(experiment, plan.devices);
  const int busy = std::accumulate(threads.begin(), threads.end(), 0);
  result.oversubscribed = busy > cores;
  if (result.oversubscribed)
    result.warnings.emplace_back(
        fmt::format("{} {} share {} cores: their times mean nothing, their curves do", busy,
                    busy == plan.devices ? "workers" : "threads", cores));
  if (!find_schedule(plan.schedule, plan.name).flushes)
    result.warnings.emplace_back(
        fmt::format("schedule \"{}\" computes gradients with older weights: the curve differs from a single device's", plan.schedule));
  if (experiment.micro_batches > 0 && experiment.micro_batches != plan.micro_batches)
    result.warnings.emplace_back(
        fmt::format("the experiment's micro_batches = {} is for pipelines; this plan has {}: spell it out to accumulate gradients, as in "
                    "data,micro_batches=4", experiment.micro_batches, plan.micro_batches));
  if (plan.compression.kind != Compression::Kind::none && plan.devices > 1)
    result.warnings.emplace_back(
        fmt::format("compression \"{}\" rounds gradients: the curve differs from a single device's", name_of(plan.compression.kind)));
  if (!has_batch_norm(model)) return;
  if (plan.micro_batches > 1)
    result.warnings.emplace_back("batch norm takes its statistics per micro-batch: the curve differs from a single device's");
  if (has_data_shards(plan) && experiment.batch_norm != BatchNormScope::global)
    result.warnings.emplace_back(
        fmt::format("batch_norm = \"{}\" takes statistics per data shard: the curve differs from a single device's", name_of(experiment.batch_norm)));
}

/// Settings that do less than they say.
void add_length_warnings(const Run& run, RunResult& result) {
  const int64_t samples = run.data.train->size();
  if (run.experiment.batch > samples)
    result.warnings.emplace_back(
        fmt::format("batch = {} is more than the {} training samples: a step takes them all", run.experiment.batch, samples));
  const Length& warmup = run.experiment.schedule.warmup;
  const int64_t rising = warmup.count > 0 ? steps_of(warmup, run.sampler().steps_per_epoch()) : 0;
  if (rising > run.steps)
    result.warnings.emplace_back(fmt::format("the warm-up of {} steps is longer than the run of {}: learning_rate is never reached",
                                             rising, run.steps));
  if (!run.experiment.noise_scale) return;
  if (const std::string obstacle = obstacle_to_gradient_norms(run.training); !obstacle.empty())
    result.warnings.push_back("the gradient noise scale is not estimated: " + obstacle);
}

}  // namespace

RunResult train(const Experiment& experiment, const Model& model, const TaskData& data, const Plan& plan, TrainObserver& observer,
                const std::atomic<bool>& interrupted) {
  validate(plan, model, experiment.batch, fmt::format("plan {}", plan.name));
  check_shapes(experiment, model, data, plan);
  install_memory_accounting();
  RunResult result;
  result.strategy = family_of(plan.name);
  result.name = plan.name;
  result.plan = plan.in_short(model);
  result.devices = plan.devices;
  result.blocks = block_strategies(plan, model);
  add_warnings(plan, model, experiment, result);

  auto run = std::make_shared<Run>(experiment, model, data, plan);
  add_length_warnings(*run, result);
  if (plan.stages.size() > 1 || plan.micro_batches > 1) result.schedule = short_picture(run->training, model);
  for (int d = 0; d < plan.devices; ++d) {
    set_memory_limit(d, experiment.device_memory);
    reset_memory_peak(d);
  }
  Summary summary(run->experiment, {data.train->task(), data.train->classes()}, plan.devices, run->sampler().samples_per_epoch(),
                  run->batches.test_samples(), run->steps);
  Ending ending;
  const double started = now();
  std::thread crew([run] { run->work_all(); });
  try {
    coordinate(*run, summary, observer, interrupted, ending);
  } catch (...) {  // an observer that cannot go on (disk full) ends the run
    run->world.abort("the run's observer failed");
    crew.join();
    throw;
  }
  run->loader.stop();
  if (ending.abandoned) crew.detach();
  else crew.join();
  for (int d = 0; d < plan.devices; ++d) {
    result.memory.push_back(memory_use(d));
    if (!ending.abandoned) result.memory.back().current = run->memory[size_t(d)].current;
    set_memory_limit(d, 0);
  }
  summary.write(result);
  describe_ending(ending, ending.abandoned ? nullptr : run->error, experiment, run->steps, result);
  const bool ended_well = result.status == RunStatus::ok || result.status == RunStatus::timed_out;
  if (ended_well || result.status == RunStatus::interrupted) hand_out_weights(*run, ending, observer, result);
  if (ended_well) add_final_metrics(*run, started, interrupted, result);
  return result;
}

bool is_plan_file(const std::string& name) {
  if (is_planned(name)) return false;
  const auto known = known_strategies();
  std::error_code ignored;
  return std::find(known.begin(), known.end(), name) == known.end() && std::filesystem::is_regular_file(name, ignored);
}

Plan make_plan(const std::string& name, const Experiment& experiment, const Model& model, int devices) {
  if (is_plan_file(name)) {
    Plan plan = read_plan(name, model);
    validate(plan, model, experiment.batch, name);
    return plan;
  }
  const Cluster cluster = cluster_of(experiment, is_single(name) ? 1 : devices);
  Plan draft = named_plan(name, model, cluster, experiment.batch, {}, experiment.micro_batches);
  if (draft.stages.size() == 1) return draft;
  const int64_t samples = std::max<int64_t>(1, experiment.batch / draft.micro_batches / draft.layers.back().data);
  return named_plan(name, model, cluster, experiment.batch, profile_layers(model, experiment.precision, samples, experiment.seed, experiment.tokens),
                    experiment.micro_batches);
}

}  // namespace trireme
