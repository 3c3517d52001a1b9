#include "cli/train_folder.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/column_table.h"
#include "cli/experiment_header.h"
#include "cli/plan_choice.h"
#include "cli/train_checkpoints.h"
#include "data/open.h"
#include "experiment/initial_weights.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "report/table.h"
#include "train/compare.h"
#include "trireme/error.h"

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
  /// `evaluations`: also shows evaluations.
  BarObserver(Progress& progress, std::string name, bool evaluations)
      : progress_(progress), steps_(progress, std::move(name)), evaluations_(evaluations) {}
  void on_step(const StepReport& report) override { steps_.update(report); }
  void on_evaluation(const EvaluationPoint& point) override {
    if (!evaluations_) return;
    std::string line =
        fmt::format("{:.2f} epochs, {}: test loss {:.4g}", point.epoch, format_seconds(point.seconds), point.loss);
    for (const Metric& metric : point.metrics) line += fmt::format(", {} {}", metric.name, metric_text(metric));
    progress_.say(line);
  }
  void on_notice(const std::string& line) override { progress_.say(line); }

 private:
  Progress& progress_;
  ShownSteps steps_;
  const bool evaluations_;
};

/// Training matters more than its records. If they cannot be written, a notice is printed once, and each later record
/// is tried again.
class Recorder : public TrainObserver {
 public:
  Recorder(RunFolder& folder, TrainObserver& teller) : folder_(folder), teller_(teller) {}
  void on_step(const StepReport& report) override {
    attempt([&] { folder_.on_step(report); });
  }
  void on_evaluation(const EvaluationPoint& point) override {
    attempt([&] { folder_.on_evaluation(point); });
  }
  void on_weights(const Weights& weights) override {
    folder_.on_weights(weights);
  }  // the training reports missing weights

 private:
  template <class Write>
  void attempt(const Write& write) {
    try {
      write();
      if (std::exchange(refused_, false)) teller_.on_notice("records of steps are written again");
    } catch (const Error& error) {
      if (!std::exchange(refused_, true))
        teller_.on_notice(fmt::format("{}; the run continues, but its records of steps have a gap", error.what()));
    }
  }

  RunFolder& folder_;
  TrainObserver& teller_;
  bool refused_ = false;
};

void send(const nlohmann::json& message) { std::cout << json_text(message) << "\n" << std::flush; }

/// Writes JSON lines to a parent process, at most ten per second.
class MessageObserver : public TrainObserver {
 public:
  void on_step(const StepReport& r) override {
    const auto now = std::chrono::steady_clock::now();
    if (r.point.step > 1 && r.point.step < r.total_steps && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    send({{"type", "step"},
          {"step", r.point.step},
          {"samples", r.point.samples},
          {"seconds", r.point.seconds},
          {"loss", json_number(r.point.loss)},
          {"total_steps", r.total_steps},
          {"step_seconds", r.step_seconds},
          {"samples_per_second", r.samples_per_second},
          {"seconds_left", r.seconds_left}});
  }

 private:
  std::chrono::steady_clock::time_point last_{};
};

/// Describes how a run ended, without its figures.
std::string ending_of(const std::string& name, const RunResult& row) {
  std::string text = fmt::format("{}: {}", name, name_of(row.status));
  if (!row.reason.empty()) text += ": " + row.reason;
  for (const std::string& warning : row.warnings) text += "\n" + warning;
  return text;
}

/// `refused`: why the run folder could not be completed; empty: it was.
int exit_code_of(const RunResult& row, const std::string& refused) {
  const bool well = row.status == RunStatus::ok || row.status == RunStatus::timed_out;
  return well && refused.empty() && !lacks_last_checkpoint(row) ? 0 : 1;
}

/// Trains with reports to the run folder and to the parent process or the screen. Also shows the row's end on the
/// screen.
RunResult train_and_show(const TrainSubject& subject, const std::string& name, const TrainShow& show,
                         const Train& train, bool messages, RunFolder& folder) {
  const auto& [experiment, data, model] = subject;
  if (messages) {
    MessageObserver sender;
    Recorder recorder(folder, sender);
    Fanout fanout({&recorder, &sender});
    return train(fanout);
  }
  Progress progress;
  if (const std::string batch = batch_in_words(experiment); !batch.empty()) progress.say("batch: " + batch);
  for (const std::string& note : show.notes) progress.say(note);
  if (data.generated) progress.say("data: " + data.source);
  if (data.inputs)
    for (const std::string& line : column_table(*data.inputs)) progress.say(line);
  for (const std::string& note : experiment.model_findings.notes)
    progress.say(fmt::format("{}: {}", experiment.model_name, note));
  if (model.initial_values())
    for (const std::string& line : lines_of(model.initial_values()->report)) progress.say(line);
  progress.begin(name, 0);
  std::optional<BarObserver> bar(std::in_place, progress, name, show.evaluations);
  Recorder recorder(folder, *bar);
  Fanout fanout({&recorder, &*bar});
  RunResult row = train(fanout);
  bar.reset();
  const std::string handed_over = show.hands_over ? show.hands_over(row) : "";
  if (show.on_end) show.on_end(handed_over.empty() ? ending_of(name, row) : handed_over);
  if (handed_over.empty()) progress.end(name, row);
  else progress.say(handed_over);
  return row;
}

}  // namespace

std::filesystem::path free_run_path(const std::string& experiment) {
  const std::filesystem::path wanted = default_run_path(experiment, utc_now());
  std::filesystem::path path = wanted;
  std::error_code error;
  if (wanted.has_parent_path()) std::filesystem::create_directories(wanted.parent_path(), error);
  for (int i = 2; !error && !std::filesystem::create_directory(path, error); ++i)
    path = wanted.string() + fmt::format("-{}", i);
  if (error)
    fail_user({path.string(), "cannot create the run's folder", error.message(), "choose another place with --out"});
  return path;
}

TrainSubject open_subject(RunSpec experiment, Progress* progress) {
  const TaskData data = in_phase(progress, "reading the data", [&] { return open_data(experiment.data); });
  Model model = in_phase(progress, "building the model",
                         [&] { return with_initial_weights(experiment, build_model(experiment, data)); });
  return {std::move(experiment), data, std::move(model)};
}

std::string finish_folder(RunFolder& folder, const ExperimentResult& result) {
  try {
    folder.finish(result);
    return "";
  } catch (const Error& error) {
    spdlog::error("{}", error.what());
    return error.what();
  }
}

int train_into_folder(const TrainOptions& options, const TrainSubject& subject, const TrainShow& show,
                      const Train& train) {
  ExperimentResult result = experiment_header(subject.experiment, subject.data, subject.model);
  const IfExists if_exists = show.goes_on             ? IfExists::go_on
                             : options.experiment.out ? IfExists::refuse
                                                      : IfExists::pick_another;
  RunFolder folder(options.experiment.out.value_or(default_run_path(subject.experiment.name, result.started)),
                   if_exists);
  if (show.plan) folder.write_plan(plan_text(*show.plan, subject.model));
  if (subject.data.inputs) folder.write_inputs(*subject.data.inputs);
  if (!show.initial_values.empty()) result.initial_values = show.initial_values;
  if (show.describe) show.describe(result);
  folder.update(result);  // so that the folder of a killed run states what it trained
  if (show.on_folder) show.on_folder(folder.path());
  result.rows.push_back(
      train_and_show(subject, show.plan ? show.plan->name : options.plan, show, train, options.messages, folder));
  add_prices(result);
  RunResult& row = result.rows.front();
  // The trained result is shown and can be resumed in any case.
  const std::string refused = finish_folder(folder, result);
  if (show.hands_over && !show.hands_over(row).empty()) return 1;
  if (options.messages) {
    if (!refused.empty()) row.warnings.push_back(refused);
    send({{"type", "result"}, {"row", row_to_json(row)}, {"measured_steps", row.measured_steps}});
    if (options.is_row()) return 0;  // the row contains the status
    return exit_code_of(row, refused);
  }
  const std::string closing = closing_lines(options, row, folder.path());
  std::cout << answer(result, options.details, standard_output_style()) << "\nrun folder: " << folder.path().string()
            << "\n"
            << (refused.empty() ? "report: " + (folder.path() / "report.html").string() + "\n" : "") << closing
            << comparison_line(options, row);
  if (show.on_end) show.on_end(closing);
  if (!options.json.empty()) write_json_file(options.json, to_json(result));
  return exit_code_of(row, refused);
}

}  // namespace trireme
