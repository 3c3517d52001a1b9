#include "train/replica_trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "plan/cluster.h"
#include "plan/strategy.h"
#include "train/final_metrics.h"
#include "train/replica_run.h"
#include "train/summary.h"
#include "train/trained_weights.h"
#include "update/federated.h"

namespace trireme {
namespace {

constexpr double kPollSeconds = 0.05;

/// From replicas' steps to the curve and the times of the row.
class ReplicaSummary {
 public:
  ReplicaSummary(const ReplicaRun& run, const Experiment& experiment) : run_(run), experiment_(experiment), last_end_(size_t(run.replicas()), 0.0) {}

  /// A point of the curve where one is due: as many steps as there are replicas make one.
  std::optional<CurvePoint> add(const ReplicaStep& step) {
    step_seconds_.push_back(step.end - last_end_[size_t(step.replica)]);
    last_end_[size_t(step.replica)] = step.end;
    seconds_ = std::max(seconds_, step.end);
    samples_ += step.samples;
    if (std::isfinite(step.loss_sum)) {  // else a client's update is refused, and the run goes on
      open_samples_ += step.samples;
      open_loss_ += step.loss_sum;
    }
    if (++open_ < run_.replicas()) return std::nullopt;
    const CurvePoint point{int64_t(curve_.size()) + 1, samples_, seconds_, open_samples_ > 0 ? open_loss_ / double(open_samples_) : NAN};
    open_ = 0;
    open_samples_ = 0;
    open_loss_ = 0;
    curve_.push_back(point);
    return point;
  }

  StepReport report(const CurvePoint& point) const {
    StepReport report;
    report.point = point;
    report.total_steps = run_.steps();
    report.step_seconds = point.seconds / double(point.step);
    report.samples_per_second = point.seconds > 0 ? double(point.samples) / point.seconds : 0;
    report.seconds_left = run_.is_modelled() || run_.steps() == 0 ? 0 : report.step_seconds * double(std::max<int64_t>(0, run_.steps() - point.step));
    return report;
  }

  void write(RunResult& row) {
    // the last exchange is part of the run
    if (!run_.evaluations().empty()) seconds_ = std::max(seconds_, run_.evaluations().back().seconds);
    row.curve = curve_;
    row.evaluations = run_.evaluations();
    row.target = experiment_.target;
    if (!row.evaluations.empty()) row.test = row.evaluations.back();
    for (const EvaluationPoint& point : row.evaluations)
      if (experiment_.target && std::isfinite(point.loss) && point.main() && reaches(*point.main(), *experiment_.target)) {
        row.to_target = ToTarget{point.step, point.epoch, point.seconds};
        break;
      }
    if (step_seconds_.empty() || seconds_ <= 0) return;
    row.step_seconds = spread(step_seconds_);
    row.samples_per_second = double(samples_) / seconds_;
    row.epoch_seconds = double(run_.batches().samples_per_epoch()) / *row.samples_per_second;
    write_counts(row);
  }

 private:
  static StepSeconds spread(std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    const auto at = [&](double q) { return seconds[size_t(q * double(seconds.size() - 1))]; };
    return {at(0.5), at(0.1), at(0.9)};
  }

  void write_counts(RunResult& row) const {
    const auto reported = [](const HubCounts& counts) { return counts.compute_seconds > 0; };
    if (std::none_of(run_.counts().begin(), run_.counts().end(), reported)) return;  // processes that were lost before they said anything
    ReplicaReport report;
    report.replicas = int(run_.counts().size());
    report.clock = run_.is_modelled() ? "modelled" : "real";
    double idle = 0, exchange = 0;
    for (const HubCounts& counts : run_.counts()) {
      row.busy_share.push_back(std::min(1.0, counts.compute_seconds / seconds_));
      idle += counts.idle_seconds;
      exchange += counts.exchange_seconds;
      report.bytes += counts.bytes_sent;
      if (counts.staleness.size() > report.staleness.size()) report.staleness.resize(counts.staleness.size());
      for (size_t k = 0; k < counts.staleness.size(); ++k) report.staleness[k] += counts.staleness[k];
    }
    if (const auto* federated = dynamic_cast<const FederatedPolicy*>(&run_.update())) report.rounds = federated->rounds();
    const double whole = seconds_ * report.replicas;
    report.idle_share = idle / whole;
    row.exposed_communication = std::min(1.0, exchange / whole);
    if (!step_seconds_.empty()) row.bytes_per_step = report.bytes * run_.replicas() / report.replicas / int64_t(step_seconds_.size());
    row.replicas = std::move(report);
  }

  const ReplicaRun& run_;
  const Experiment& experiment_;
  std::vector<double> last_end_;      ///< by replica
  std::vector<double> step_seconds_;  ///< of all replicas
  std::vector<CurvePoint> curve_;
  int64_t samples_ = 0, open_samples_ = 0;
  int open_ = 0;
  double seconds_ = 0, open_loss_ = 0;
};

struct End {
  bool interrupted = false, timed_out = false;
  int64_t diverged = 0;  ///< step of the curve
};

void follow(ReplicaRun& run, ReplicaSummary& summary, TrainObserver& observer, const Experiment& experiment, const std::atomic<bool>& interrupted,
            End& end) {
  const double started = steady_seconds();
  for (bool over = false; !over;) {
    for (const ReplicaStep& step : run.take_steps(kPollSeconds, over)) {
      const auto point = summary.add(step);
      // where broken values are refused a replica may go on with them, alone
      const bool spoils = !std::isfinite(step.loss_sum) && !run.update().refuses_broken_values();
      if (spoils && end.diverged == 0) {
        end.diverged = step.step + 1;
        run.abort("diverged");
      }
      if (point) observer.on_step(summary.report(*point));
    }
    for (const EvaluationPoint& point : run.take_evaluations()) observer.on_evaluation(point);
    if (interrupted && !end.interrupted) {
      end.interrupted = true;
      run.abort("interrupted");
    }
    if (!end.timed_out && experiment.time_limit > 0 && steady_seconds() - started > experiment.time_limit) {
      end.timed_out = true;
      run.abort("time_limit");
    }
  }
}

void describe(const End& end, const std::exception_ptr& error, const Experiment& experiment, RunResult& row) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const MemoryLimitError& e) {
    row.status = RunStatus::does_not_fit;
    row.reason = first_line(e);
  } catch (const std::exception& e) {
    row.status = RunStatus::failed;
    row.reason = first_line(e);
  }
  if (end.interrupted) {
    row.status = RunStatus::interrupted;
    row.reason = "stopped by the user";
  } else if (end.diverged > 0) {
    row.status = RunStatus::failed;
    row.reason = fmt::format("diverged: the loss of a replica's step {} is not finite; lower the learning rate or set clip_norm", end.diverged);
  } else if (end.timed_out && row.status == RunStatus::ok) {
    row.status = RunStatus::timed_out;
    row.reason = fmt::format("time_limit = {} reached", format_seconds(experiment.time_limit));
  }
}

std::string in_words(const ModelledClock& clock) {
  if (clock.cluster) return fmt::format("steps and links of cluster {} by its datasheets, an approximation", clock.cluster->name);
  if (clock.profile) return "steps as layers were profiled, exchanges over links as [update.virtual] says";
  return fmt::format("{}{}{}, exchanges over links as [update.virtual] says", clock.step_seconds > 0 ? format_seconds(clock.step_seconds) + " a step" : "",
                     clock.step_seconds > 0 && clock.sample_seconds > 0 ? " and " : "",
                     clock.sample_seconds > 0 ? format_seconds(clock.sample_seconds) + " a sample" : "");
}

void add_warnings(const ReplicaRun& run, const Experiment& experiment, RunResult& row) {
  const int cores = inspect_machine(false).cores, busy = row.devices * experiment.threads;
  if (!run.is_modelled()) row.oversubscribed = busy > cores;
  if (row.oversubscribed)
    row.warnings.emplace_back(fmt::format("{} workers share {} cores: their times mean nothing, their curves do", row.devices, cores));
  if (run.is_modelled()) row.warnings.push_back("times are a model's: " + in_words(*experiment.replicas.clock));
}

/// Failures that the run got to: `all`, or those before its last step.
void add_failures(const Experiment& experiment, bool all, RunResult& row) {
  if (!experiment.replicas.clock) return;
  for (const Failure& failure : experiment.replicas.clock->failures) {
    if (!all && (row.curve.empty() || failure.at >= row.curve.back().seconds)) continue;
    row.warnings.push_back(fmt::format("worker {} failed after {} and {}", failure.replica, format_seconds(failure.at),
                                       std::isinf(failure.back_after) ? "did not come back"
                                                                      : "was back " + format_seconds(failure.back_after) + " later"));
  }
}

/// Updates of clients that are not in the weights.
void add_refusals(RunResult& row) {
  if (!row.replicas) return;
  int refused = 0, late = 0;
  std::set<int> clients;
  for (const RoundRecord& round : row.replicas->rounds) {
    refused += round.refused;
    late += round.late;
    clients.insert(round.refused_clients.begin(), round.refused_clients.end());
  }
  if (refused > 0)
    row.warnings.push_back(fmt::format("{} updates were refused, as they were not finite: of client {}", refused, fmt::join(clients, ", ")));
  if (late > 0) row.warnings.push_back(fmt::format("{} answers came when their round was over, and were not used", late));
}

void hand_out(const ReplicaRun& run, const Experiment& experiment, const Model& model, const TaskData& data, TrainObserver& observer,
              const std::atomic<bool>& interrupted, RunResult& row) {
  if (run.weights().empty()) return;
  try {
    const bool wanted = experiment.save_weights.value_or(bytes_of_weights(model, experiment.precision) <= kLargestSavedUnasked);
    if (wanted) observer.on_weights(weights_for_file(zoo_spec(experiment, data), model, run.weights()));
    if (has_final_metrics(data)) row.final_metrics = final_metrics(experiment, model, data, run.weights(), [&] { return interrupted.load(); });
  } catch (const std::exception& error) {
    row.warnings.push_back("the trained weights are not saved: " + first_line(error));
  }
}

}  // namespace

RunResult train_replicas(const Experiment& experiment, const Model& model, const TaskData& data, const std::string& strategy, int workers,
                         TrainObserver& observer, const std::atomic<bool>& interrupted, const MakeReplicaWorld& make_world) {
  install_memory_accounting();
  ReplicaRun run(experiment, model, data, strategy, workers, make_world);
  RunResult row;
  row.strategy = family_of(strategy);
  row.name = strategy;
  row.devices = workers;
  row.plan = run.is_synchronous() ? run.plan().in_short(model) : fmt::format("{} x {}", run.replicas(), run.plan().in_short(model));
  row.warnings = experiment.model_notes;
  if (!make_world) add_warnings(run, experiment, row);
  for (int d = 0; d < workers; ++d) {
    set_memory_limit(d, experiment.device_memory);
    reset_memory_peak(d);
  }
  ReplicaSummary summary(run, experiment);
  End end;
  std::exception_ptr error;
  std::thread crew([&] {
    try {
      run.work([&] { return interrupted.load(); });
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    follow(run, summary, observer, experiment, interrupted, end);
  } catch (...) {  // an observer that cannot go on (disk full) ends the run
    run.abort("the run's observer failed");
    crew.join();
    throw;
  }
  crew.join();
  row.memory = run.memory();
  for (const EvaluationPoint& point : run.take_evaluations()) observer.on_evaluation(point);
  summary.write(row);
  describe(end, error, experiment, row);
  const bool all_lost = row.status == RunStatus::ok && run.weights().empty();
  if (all_lost) {
    row.status = RunStatus::failed;
    row.reason = "every replica was lost before the run had a result";
  }
  add_failures(experiment, all_lost, row);
  add_refusals(row);
  if (row.status != RunStatus::failed && row.status != RunStatus::does_not_fit)
    hand_out(run, experiment, model, data, observer, interrupted, row);
  return row;
}

}  // namespace trireme
