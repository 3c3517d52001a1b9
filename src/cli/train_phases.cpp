#include "cli/train_phases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint_folder.h"
#include "cli/experiment_header.h"
#include "cli/plan_choice.h"
#include "cli/text_table.h"
#include "cli/train_checkpoints.h"
#include "cli/train_folder.h"
#include "experiment/batches.h"
#include "experiment/run_device.h"
#include "plan/strategies.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The folder of a phase's attempt: phase-2, then, after it was interrupted, phase-2.2, phase-2.3.
fs::path attempt_folder(const fs::path& folder, int phase, int attempt) {
  return folder / (attempt == 1 ? fmt::format("phase-{}", phase) : fmt::format("phase-{}.{}", phase, attempt));
}

/// Number of attempts so far.
int attempts(const fs::path& folder, int phase) {
  int count = 0;
  while (fs::exists(attempt_folder(folder, phase, count + 1))) ++count;
  return count;
}

/// The row of a phase that was trained to its end; nullopt: it was not.
std::optional<RunResult> finished_row(const fs::path& run) {
  const fs::path file = run / "run.json";
  if (!fs::exists(file)) return std::nullopt;
  const nlohmann::json content = read_json_file(file);
  if (content.value("status", "") != "finished") return std::nullopt;
  const ExperimentResult result = from_json(content, file.string());
  const bool ended = result.rows.size() == 1 && (result.rows.front().status == RunStatus::ok ||
                                                 result.rows.front().status == RunStatus::timed_out);
  return ended ? std::optional(result.rows.front()) : std::nullopt;
}

bool has_checkpoint(const fs::path& run) {
  return fs::is_directory(run / kCheckpointFolder) && !find_checkpoints(run / kCheckpointFolder).empty();
}

/// Creates the folder of all phases, or opens that of the run to resume.
fs::path folder_of(const TrainOptions& options, const Experiment& experiment) {
  if (!options.resume.empty()) {
    if (!fs::is_directory(options.resume / kFirstPhase))
      fail_user({"--resume", options.resume.string(), "is not the folder of a run in phases: it has no phase-1",
                 "name the run's folder; to resume a single phase add --phase"});
    return options.resume;
  }
  fs::path folder = options.experiment.out.value_or(default_run_path(experiment.name, utc_now()));
  const fs::path wanted = folder;
  for (int k = 2; fs::exists(folder) && !options.experiment.out; ++k) folder = wanted.string() + fmt::format("-{}", k);
  if (fs::exists(folder) && !fs::is_empty(folder))
    fail_user({"--out", folder.string(), "is there, and is not empty", "choose another, or go on with it: --resume"});
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_user({"--out", folder.string(), error.message(), "choose another folder"});
  return folder;
}

/// What a phase's run got.
struct PhaseResult {
  int phase = 0;
  fs::path folder;
  RunResult row;
};

std::string changes_in_words(const PhaseSpec& phase) { return join(phase.changes); }

std::vector<std::string> table_row(const PhaseResult& result, const PhaseSpec& spec) {
  const RunResult& row = result.row;
  const bool stepped = !row.curve.empty();
  std::string metric;
  if (row.test)
    for (const Metric& one : row.test->metrics)
      if (metric.empty()) metric = fmt::format("{} {}", one.name, metric_text(one));
  return {std::to_string(result.phase),
          row.plan,
          stepped ? std::to_string(row.curve.back().step) : "",
          row.step_seconds ? fmt::format("{:.4g}", row.step_seconds->median * 1e3) : "",
          row.samples_per_second ? fmt::format("{:.4g}", *row.samples_per_second) : "",
          stepped ? format_seconds(row.curve.back().seconds) : "",
          metric,
          changes_in_words(spec)};
}

nlohmann::json to_json(const PhaseResult& result, const PhaseSpec& spec) {
  const RunResult& row = result.row;
  nlohmann::json metrics = nlohmann::json::object();
  if (row.test)
    for (const Metric& metric : row.test->metrics) metrics[metric.name] = json_number(metric.value);
  return {{"phase", result.phase},
          {"folder", result.folder.filename().string()},
          {"changes", spec.changes},
          {"plan", row.plan},
          {"steps", row.curve.empty() ? 0 : row.curve.back().step},
          {"seconds", row.curve.empty() ? 0 : row.curve.back().seconds},
          {"metrics", metrics}};
}

void show(const fs::path& folder, const Experiment& experiment, const std::vector<PhaseResult>& results) {
  std::vector<std::vector<std::string>> rows;
  nlohmann::json phases = nlohmann::json::array();
  double seconds = 0;
  for (const PhaseResult& result : results) {
    const PhaseSpec& spec = experiment.phases[size_t(result.phase) - 1];
    rows.push_back(table_row(result, spec));
    phases.push_back(to_json(result, spec));
    if (!result.row.curve.empty()) seconds += result.row.curve.back().seconds;
  }
  write_json_file(folder / "phases.json", {{"experiment", experiment.name}, {"seconds", seconds}, {"phases", phases}});
  std::cout << "\n"
            << text_table({"phase", "plan", "steps", "ms/step", "samples/s", "time", "test", "changes"}, rows,
                          {2, 3, 4, 5})
            << fmt::format("\nall phases: {}\nrun folder: {}\n", format_seconds(seconds), folder.string());
}

/// The options of a phase's experiment.
ExperimentOptions experiment_of(const TrainOptions& options, int phase) {
  ExperimentOptions one = options.experiment;
  one.phase = phase;
  return one;
}

const std::string& plan_of(const TrainOptions& options, const PhaseSpec& spec) {
  return spec.plan.empty() ? options.plan : spec.plan;
}

/// What all phases must have in common: names and shapes of parameters and running statistics.
std::vector<std::string> tensors_of(const Model& model) {
  std::vector<std::string> tensors;
  for (const ParameterSpec& spec : model.parameters())
    tensors.push_back(fmt::format("{} [{}]", spec.name, fmt::join(spec.shape, ", ")));
  for (const BufferSpec& spec : model.buffers())
    tensors.push_back(fmt::format("{} [{}]", spec.name, fmt::join(spec.shape, ", ")));
  return tensors;
}

/// Checks before anything is trained what would otherwise end the run after the first phases. Errors (user).
void check_phases(const TrainOptions& options, const Experiment& experiment) {
  std::vector<std::string> first;
  for (size_t k = 0; k < experiment.phases.size(); ++k) {
    const std::string where = fmt::format("phase {}", k + 1), plan = plan_of(options, experiment.phases[k]);
    check_plan_name(plan, where);
    if (k > 0 && is_update_policy(plan))
      fail_user({where, plan, "an update policy cannot begin with the state of another run", "choose another plan"});
    TrainSubject subject = open_subject(RunSpec{experiment_of(options, int(k) + 1).read()});
    check_device(subject.experiment);
    check_batch(subject.experiment, subject.data);
    const std::vector<std::string> tensors = tensors_of(subject.model);
    if (k == 0) first = tensors;
    const auto [mine, of_first] = std::mismatch(tensors.begin(), tensors.end(), first.begin(), first.end());
    if (mine != tensors.end() || of_first != first.end())
      fail_user({where, mine != tensors.end() ? *mine : *of_first, "the model of phase 1 has other parameters",
                 "parameters must not depend on what a phase changes: choose another model, or the same sizes"});
    if (!is_planned(plan) && !is_update_policy(plan))
      check_shapes(subject.experiment, subject.model, subject.data,
                   choose_plan(plan, options.experiment.devices, subject.experiment, subject.model));
  }
}

/// The options of the phase's run, and the state with which it begins.
TrainOptions options_of_phase(const TrainOptions& options, const Experiment& experiment, int phase,
                              const fs::path& folder, const fs::path& before) {
  TrainOptions one = options;
  one.plan = plan_of(options, experiment.phases[size_t(phase) - 1]);
  one.names_plan = true;
  one.experiment = experiment_of(options, phase);
  one.phases = folder;
  const int attempted = attempts(folder, phase);
  one.experiment.out = attempt_folder(folder, phase, attempted + 1);
  one.resume.clear();
  if (phase > 1) one.start_from = before;
  for (int a = attempted; a > 0 && one.resume.empty(); --a)
    if (has_checkpoint(attempt_folder(folder, phase, a))) one.resume = attempt_folder(folder, phase, a);
  if (!one.resume.empty()) one.start_from.clear();
  return one;
}

}  // namespace

int run_phases(const TrainOptions& options, const Experiment& experiment) {
  if (!options.json.empty())
    fail_user(
        {"--json", options.json, "a run in phases has a run.json for each", "leave it out, and read phases.json"});
  const int count = int(experiment.phases.size());
  check_phases(options, experiment);
  const fs::path folder = folder_of(options, experiment);
  std::vector<PhaseResult> results;
  for (int phase = 1; phase <= count; ++phase) {
    const int attempted = attempts(folder, phase);
    const fs::path before = results.empty() ? fs::path() : results.back().folder;
    if (attempted > 0)
      if (const auto row = finished_row(attempt_folder(folder, phase, attempted))) {
        results.push_back({phase, attempt_folder(folder, phase, attempted), *row});
        continue;
      }
    std::cout << fmt::format("{}phase {} of {}: {}\n", phase > 1 ? "\n" : "", phase, count,
                             changes_in_words(experiment.phases[size_t(phase) - 1]))
              << std::flush;
    const TrainOptions one = options_of_phase(options, experiment, phase, folder, before);
    if (const int code = run_train(one); code != 0) return code;
    const auto row = finished_row(*one.experiment.out);
    check_internal(row.has_value(), "a phase that ended well has a row");
    results.push_back({phase, *one.experiment.out, *row});
  }
  show(folder, experiment, results);
  return 0;
}

}  // namespace trireme
