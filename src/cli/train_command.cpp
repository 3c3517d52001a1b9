#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "base/machine.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/experiment_header.h"
#include "cli/plan_choice.h"
#include "cli/train_checkpoints.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "report/table.h"
#include "train/batches.h"
#include "train/compare.h"
#include "train/forecaster.h"
#include "train/initial_weights.h"
#include "train/read_emulation.h"
#include "train/replica_run.h"
#include "train/replica_trainer.h"
#include "train/trainer.h"

namespace trireme {
namespace {

constexpr unsigned kSecondsForLastCheckpoint = 60;  // after an interrupt, to end the step and write what has been trained

/// Sends every report to several observers.
class Fanout : public TrainObserver {
 public:
  explicit Fanout(std::vector<TrainObserver*> observers) : observers_(std::move(observers)) {}
  void on_step(const StepReport& report) override {
    for (TrainObserver* o : observers_) o->on_step(report);
  }
  void on_evaluation(const EvaluationPoint& point) override {
    for (TrainObserver* o : observers_) o->on_evaluation(point);
  }
  void on_weights(const Weights& weights) override {
    for (TrainObserver* o : observers_) o->on_weights(weights);
  }
  void on_notice(const std::string& line) override {
    for (TrainObserver* o : observers_) o->on_notice(line);
  }

 private:
  std::vector<TrainObserver*> observers_;
};

class BarObserver : public TrainObserver {
 public:
  /// `evaluations`: those are shown too.
  BarObserver(Progress& progress, std::string name, bool evaluations) : progress_(progress), name_(std::move(name)), evaluations_(evaluations) {}
  void on_step(const StepReport& report) override { progress_.update(name_, report); }
  void on_evaluation(const EvaluationPoint& point) override {
    if (!evaluations_) return;
    std::string line = fmt::format("{:.2f} epochs, {}: test loss {:.4g}", point.epoch, format_seconds(point.seconds), point.loss);
    for (const Metric& metric : point.metrics) line += fmt::format(", {} {}", metric.name, metric_text(metric));
    progress_.say(line);
  }
  void on_notice(const std::string& line) override { progress_.say(line); }

 private:
  Progress& progress_;
  const std::string name_;
  const bool evaluations_;
};

void send(const nlohmann::json& message) { std::cout << json_text(message) << "\n" << std::flush; }

/// JSON lines to a parent process, at most ten a second.
class MessageObserver : public TrainObserver {
 public:
  void on_step(const StepReport& r) override {
    const auto now = std::chrono::steady_clock::now();
    if (r.point.step > 1 && r.point.step < r.total_steps && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    send({{"type", "step"}, {"step", r.point.step}, {"samples", r.point.samples}, {"seconds", r.point.seconds},
          {"loss", json_number(r.point.loss)}, {"total_steps", r.total_steps}, {"step_seconds", r.step_seconds},
          {"samples_per_second", r.samples_per_second}, {"seconds_left", r.seconds_left}});
  }

 private:
  std::chrono::steady_clock::time_point last_{};
};

/// Trains, and where the experiment says `adapt` as what it measures suggests. The rows of a comparison stay as they are.
RunResult train_or_adapt(const Experiment& experiment, const Model& model, const TaskData& data, const Plan& plan, TrainObserver& observer,
                         CheckpointUse checkpoints) {
  if (!experiment.adapt) return train(experiment, model, data, plan, observer, interrupted_by_user(), nullptr, std::move(checkpoints));
  PlanForecaster forecaster(experiment, model, plan);
  PlanAdapter adapter(forecaster, plan.name, forecaster.at_first(), {.probes = experiment.links.has_value()});
  return train(experiment, model, data, plan, observer, interrupted_by_user(), &adapter, std::move(checkpoints));
}

/// Under a plan or an update policy.
using Train = std::function<RunResult(TrainObserver& observer)>;

/// `lines`: what is said before. Trains with reports to the run folder and to the parent process or the screen; the row is ended on the screen too.
RunResult train_and_show(const Experiment& experiment, const Model& model, const TaskData& data, const std::string& name, const Train& train,
                         const std::vector<std::string>& lines, bool messages, bool evaluations, RunFolder& folder) {
  if (messages) {
    MessageObserver sender;
    Fanout fanout({&folder, &sender});
    return train(fanout);
  }
  Progress progress;
  if (data.generated) progress.say("data: " + data.source);
  for (const std::string& note : experiment.model_notes) progress.say(fmt::format("{}: {}", experiment.model_name, note));
  if (model.initial_values())
    for (const std::string& line : lines_of(model.initial_values()->report)) progress.say(line);
  for (const std::string& line : lines) progress.say(line);
  progress.begin(name, 0);
  BarObserver bar(progress, name, evaluations);
  Fanout fanout({&folder, &bar});
  RunResult row = train(fanout);
  progress.end(name, row);
  return row;
}

}  // namespace

int run_train(const TrainOptions& options, const MakeReplicaWorld& make_world) {
  interrupted_by_user();  // from here on Ctrl-C leaves a readable folder
  Experiment experiment = options.experiment.read();
  experiment.replicas.own_data = options.own_data;
  check_target("--json", options.json);
  const std::vector<int>& devices = options.experiment.devices;
  if (!devices.empty() && !options.messages) check_emulation(experiment, devices.front());  // a comparison checks its largest row
  const TaskData data = open_data(experiment.data);
  const Model model = with_initial_weights(experiment, build_model(experiment, data));
  std::optional<Plan> plan;
  if (!is_update_policy(options.plan)) {
    plan = choose_or_find_plan(options.plan, devices, experiment, model, data, options.prediction, /*to_run=*/true);
    check_shapes(experiment, model, data, *plan);
  }
  if (!options.messages) check_train_checkpoints(options, experiment, data, plan);  // the rows of a comparison write none
  std::optional<Resumption> resumption;
  if (!options.resume.empty()) resumption = open_resumption(options.resume, experiment, model, data);

  ExperimentResult result = experiment_header(experiment, data, model);
  RunFolder folder(options.experiment.out.value_or(default_run_path(experiment.name, result.started)),
                   options.experiment.out ? IfExists::refuse : IfExists::pick_another);
  if (plan) folder.write_plan(plan_text(*plan, model));
  std::vector<std::string> lines;
  CheckpointUse checkpoints;
  if (!options.messages) checkpoints.folder = place_for_checkpoints(experiment, folder.path());
  if (!checkpoints.folder.empty()) allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
  if (resumption) {
    lines = lines_of(*resumption);
    result.initial_values = lines;
    checkpoints.resumed = std::move(resumption->checkpoint);
  }
  const Train train_it = [&](TrainObserver& observer) {
    if (!plan)
      return train_replicas(experiment, model, data, options.plan, devices.empty() ? experiment.devices.front() : devices.front(), observer,
                            interrupted_by_user(), make_world);
    // the rows of a comparison stay as they are
    return options.messages ? train(experiment, model, data, *plan, observer, interrupted_by_user(), nullptr, std::move(checkpoints))
                            : train_or_adapt(experiment, model, data, *plan, observer, std::move(checkpoints));
  };
  result.rows.push_back(train_and_show(experiment, model, data, plan ? plan->name : options.plan, train_it, lines, options.messages,
                                       /*evaluations=*/bool(make_world), folder));
  add_prices(result);
  const RunResult& row = result.rows.front();
  folder.finish(result);
  if (options.messages) {
    send({{"type", "result"}, {"row", row_to_json(row)}});
    return 0;  // the row carries the status
  }
  std::cout << comparison_table(result, standard_output_style()) << "run folder: " << folder.path().string() << "\n"
            << closing_lines(options, row, folder.path());
  if (!options.json.empty()) write_json_file(options.json, to_json(result));
  return row.status == RunStatus::ok || row.status == RunStatus::timed_out ? 0 : 1;
}

}  // namespace trireme
