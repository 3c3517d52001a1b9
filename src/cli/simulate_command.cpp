// `trireme simulate`: simulates every strategy of an experiment, without tensors.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/cores.h"
#include "base/counted.h"
#include "base/json_file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/described_devices.h"
#include "cli/experiment_header.h"
#include "cli/foreign_flags.h"
#include "cli/jobs.h"
#include "cli/predict_subject.h"
#include "cost/epochs_file.h"
#include "forecast/predictions.h"
#include "plan/strategy.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "report/table.h"
#include "train/compare.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// `kept`: the row is written to a file, with its timeline and its drawing; they are not computed for the terminal.
RunResult simulated_row(const Job& job, const RunSpec& experiment, const Model& model, const TaskData& data,
                        Predictions& predictions, bool kept) {
  try {
    if (std::optional<RunResult> row = ruled_out(job, experiment, model, data, predictions.source(job.devices).cluster))
      return *row;
    const Plan plan = predictions.plan(job.strategy, job.devices);
    PredictionOptions options{.timeline = kept, .drawing = kept};
    options.epoch_samples = data.train->size();
    RunResult row =
        predict(of_row(experiment, job.strategy, job.devices), model, plan, predictions.source(plan), options);
    name_row(job, row);
    return row;
  } catch (const Error& error) {
    const bool no_plan = is_planned(job.strategy) && error.blame() == Blame::user;
    return row_without_run(job, no_plan ? RunStatus::skipped : RunStatus::failed, first_line(error));
  }
}

/// Returns the epochs to the target with this batch. Errors (user).
Epochs epochs_of(const std::string& text, int64_t batch) {
  refuse_length_as_epochs(text, batch);
  if (text.starts_with("noise=") && text.find("least=") == std::string::npos)
    fail_user({"--epochs", text, "gives the growth of the epochs with the batch, but not their number",
               "add the epochs of a small batch: noise=2000,least=12"});
  return parse_epochs(text).at(double(batch));
}

/// Adds the time to the target, if the number of epochs to it is known for the row's batch. `text`: of --epochs.
void project_to_target(const Experiment& experiment, const std::string& text, int64_t epoch_samples, RunResult& row) {
  const int64_t batch = row.batch.value_or(experiment.batch);
  const Epochs epochs = epochs_of(text, batch);
  if (!epochs.value || !row.epoch_seconds) return;
  const double steps = std::ceil(*epochs.value * double(epoch_samples) / double(batch));
  row.target = experiment.target;
  row.to_target = ToTarget{int64_t(steps), *epochs.value, *epochs.value * *row.epoch_seconds};
  if (row.price_per_epoch) row.price_to_target = *epochs.value * *row.price_per_epoch;
}

/// "epochs to the target with a batch of 256: 4 (measured)"
std::string epochs_in_words(const std::string& text, int64_t batch) {
  const Epochs epochs = epochs_of(text, batch);
  return fmt::format("epochs to the target with a batch of {}: {} ({})", batch,
                     epochs.value ? fmt::format("{:.3g}", *epochs.value) : "not known", epochs.basis);
}

/// The same for the batches of rows that have their own, each batch once.
std::string epochs_in_words(const std::string& text, const std::vector<Job>& jobs) {
  std::set<int64_t> batches;
  for (const Job& job : jobs) batches.insert(job.samples.value_or(0));
  std::vector<std::string> parts;
  parts.reserve(batches.size());
  for (const int64_t batch : batches) parts.push_back(epochs_in_words(text, batch));
  return join(parts, "; ");
}

/// Adds a note to a row for this machine if its workers share cores (the simulator divides the cores among them).
void note_shared_cores(const RunSpec& experiment, RunResult& row) {
  const int busy = row.devices * experiment.threads, there = int(usable_cores().size());
  if (row.status != RunStatus::ok || experiment.device != c10::DeviceType::CPU || busy <= there) return;
  row.warnings.push_back(fmt::format("{} {} share {}, which is simulated", busy,
                                     experiment.threads == 1 ? "workers" : "threads", counted(there, "core")));
}

}  // namespace

int run_simulate(const SimulateOptions& options) {
  interrupted_by_user();
  RunSpec asked{options.experiment.read_for_devices()};
  check_target("--json", options.json);
  if (options.experiment.out) check_run_folder(*options.experiment.out);
  check_described_devices(asked.strategies, "strategies", *std::max_element(asked.devices.begin(), asked.devices.end()),
                          options.experiment, asked, options.prediction);
  const bool to_target = !options.epochs.empty(), own_batches = awaits_devices(asked);
  if (to_target) epochs_of(options.epochs, asked.batch);  // its errors
  Progress progress(standard_error_progress());
  PredictSubject subject(std::move(asked), options.prediction, progress);
  const RunSpec& experiment = subject.experiment;
  const TaskData& data = subject.data;
  const Model& model = subject.model;
  Predictions& predictions = subject.predictions;
  const std::vector<Job> jobs = list_jobs(experiment, model, /*to_run=*/false);
  ExperimentResult result = experiment_header(experiment, data, model);
  result.simulated = predictions.in_words();
  if (!options.prediction.cluster.empty()) result.machine = result.simulated;
  if (to_target)
    result.simulated += "; " + (own_batches ? epochs_in_words(options.epochs, jobs)
                                            : epochs_in_words(options.epochs, experiment.batch));
  predictions.settle([&] {
    result.rows.clear();
    for (const Job& job : jobs) {
      result.rows.push_back(in_phase(&progress, "simulating " + job.label, [&] {
        return interrupted_by_user()
                   ? row_without_run(job, RunStatus::interrupted, "stopped by the user before it began")
                   : simulated_row(job, experiment, model, data, predictions,
                                   options.experiment.out.has_value() || !options.json.empty());
      }));
      if (options.prediction.cluster.empty()) note_shared_cores(experiment, result.rows.back());
      if (to_target) project_to_target(experiment, options.epochs, data.train->size(), result.rows.back());
    }
  });
  predictions.keep();
  predictions.describe_prices(result);
  complete_comparison(result);
  std::cout << answer(result, options.details, standard_output_style());
  if (options.experiment.out) {
    RunFolder folder(*options.experiment.out, IfExists::refuse);
    folder.finish(result);
    std::cout << "run folder: " << folder.path().string() << "\nreport: " << (folder.path() / "report.html").string()
              << "\n";
  }
  if (!options.json.empty()) write_json_file(options.json, to_json(result));
  const bool any = std::any_of(result.rows.begin(), result.rows.end(), [](const RunResult& r) {
    return r.status == RunStatus::ok || r.status == RunStatus::does_not_fit;
  });
  if (!any)
    fail_user(
        {"strategies", "none of them can be simulated", result.rows.empty() ? "" : result.rows.front().reason, ""});
  return std::any_of(result.rows.begin(), result.rows.end(),
                     [](const RunResult& r) { return r.status == RunStatus::failed; })
             ? 1
             : 0;
}

}  // namespace trireme
