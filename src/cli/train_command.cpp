#include <fmt/format.h>

#include <chrono>
#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "cli/experiment_header.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "report/table.h"
#include "train/trainer.h"

namespace trireme {
namespace {

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

 private:
  std::vector<TrainObserver*> observers_;
};

class BarObserver : public TrainObserver {
 public:
  BarObserver(Progress& progress, std::string name) : progress_(progress), name_(std::move(name)) {}
  void on_step(const StepReport& report) override { progress_.update(name_, report); }

 private:
  Progress& progress_;
  std::string name_;
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

}  // namespace

int run_train(const TrainOptions& options) {
  const auto& interrupted = interrupted_by_user();
  const Experiment experiment = options.experiment.read();
  const TaskData data = open_data(experiment.data);
  const Model model = build_model(experiment, data);
  if (!options.messages && data.generated) std::cout << data.source << "\n";
  const int devices = experiment.devices.empty() ? 1 : experiment.devices.front();
  const Plan plan = make_plan(options.plan, experiment, model, devices);

  ExperimentResult result = experiment_header(experiment, data);
  RunFolder folder(options.experiment.out.value_or(default_run_path(experiment.name, result.started)),
                   options.experiment.out ? IfExists::refuse : IfExists::pick_another);
  folder.write_plan(to_json(plan, model).dump(2) + "\n");

  std::optional<Progress> progress;
  std::optional<BarObserver> bar;
  MessageObserver messages;
  std::vector<TrainObserver*> observers{&folder};
  if (options.messages) {
    observers.push_back(&messages);
  } else {
    progress.emplace();
    progress->begin(plan.name, 0);
    bar.emplace(*progress, plan.name);
    observers.push_back(&*bar);
  }
  Fanout fanout(observers);
  RunResult row = train(experiment, model, data, plan, fanout, interrupted);
  result.rows.push_back(row);
  folder.finish(result);
  if (!options.json.empty()) write_json_file(options.json, to_json(result));
  if (options.messages) {
    send({{"type", "result"}, {"header", to_json(experiment_header(experiment, data))}, {"row", row_to_json(row)}});
    return 0;  // the row carries the status
  }
  progress->end(plan.name, row);
  std::cout << comparison_table(result, standard_output_style()) << "run folder: " << folder.path().string() << "\n";
  return row.status == RunStatus::ok || row.status == RunStatus::timed_out ? 0 : 1;
}

}  // namespace trireme
