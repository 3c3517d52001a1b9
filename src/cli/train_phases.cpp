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
#include "cli/exit_codes.h"
#include "cli/left_behind.h"
#include "cli/plan_choice.h"
#include "cli/text_table.h"
#include "cli/train_checkpoints.h"
#include "cli/train_folder.h"
#include "experiment/batches.h"
#include "experiment/read_phases.h"
#include "experiment/run_device.h"
#include "plan/strategies.h"
#include "program/graph.h"
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
  try {
    const nlohmann::json content = read_json_file(file);
    if (content.value("status", "") != "finished") return std::nullopt;
    const ExperimentResult result = from_json(content, file.string());
    const bool ended = result.rows.size() == 1 && (result.rows.front().status == RunStatus::ok ||
                                                   result.rows.front().status == RunStatus::timed_out);
    return ended ? std::optional(result.rows.front()) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // the run was killed while it wrote the file
  }
}

/// The row of a run that was killed after its last step, before it wrote its result; nullopt: steps are left.
std::optional<RunResult> row_of_last_checkpoint(const fs::path& run, int64_t steps) {
  const std::optional<FoundCheckpoint> newest = newest_complete(run);
  if (!newest || steps == 0 || newest->step < steps) return std::nullopt;
  const CheckpointIndex& index = *newest->index;
  RunResult row;
  row.plan = index.plan;
  row.curve.push_back({index.step, index.samples, index.seconds, index.loss});
  if (!index.metrics.empty()) row.test = EvaluationPoint{.metrics = index.metrics};
  return row;
}

/// Creates the folder of all phases, or opens that of the run to resume.
fs::path folder_of(const TrainOptions& options, const Experiment& experiment) {
  if (!options.resume.empty()) {
    if (options.experiment.out)
      fail_user(
          {"--out", options.experiment.out->string(), "a run in phases is resumed in its own folder", "leave it out"});
    const bool is_phase = fs::is_directory(fs::absolute(options.resume).lexically_normal().parent_path() / kFirstPhase);
    if (!fs::is_directory(options.resume / kFirstPhase))
      fail_user({"--resume", options.resume.string(), "is not the folder of a run in phases: it has no phase-1",
                 is_phase ? "name the folder that it is in; to resume this phase alone add --phase"
                          : "name the run's folder; to resume a single phase add --phase"});
    return options.resume;
  }
  if (!options.experiment.out) return free_run_path(experiment.name);
  const fs::path& folder = *options.experiment.out;
  check_run_folder(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_user({"--out", folder.string(), error.message(), "choose another folder"});
  return folder;
}

/// What a phase's run got.
struct PhaseResult {
  int phase = 0;
  std::vector<std::string> changes;  ///< of the phase
  fs::path folder;
  RunResult row;

  int64_t steps() const { return row.curve.empty() ? 0 : row.curve.back().step; }
  double seconds() const { return row.curve.empty() ? 0 : row.curve.back().seconds; }
};

double seconds_of(const std::vector<PhaseResult>& results) {
  double seconds = 0;
  for (const PhaseResult& result : results) seconds += result.seconds();
  return seconds;
}

/// The phase's changes that no flag replaces.
std::vector<std::string> changes_of(const TrainOptions& options, const PhaseSpec& phase) {
  const auto key_of = [](const std::string& assignment) { return assignment.substr(0, assignment.find('=')); };
  std::vector<std::string> changes = phase.changes;
  std::erase_if(changes, [&](const std::string& change) {
    if (options.experiment.steps && key_of(change) == "length") return true;
    return std::any_of(options.experiment.set.begin(), options.experiment.set.end(),
                       [&](const std::string& flag) { return key_of(flag) == key_of(change); });
  });
  return changes;
}

std::vector<std::string> table_row(const PhaseResult& result) {
  const RunResult& row = result.row;
  const Metric* metric = row.test ? row.test->main() : nullptr;
  const bool stepped = result.steps() > 0;
  return {std::to_string(result.phase),
          row.plan,
          stepped ? std::to_string(result.steps()) : "",
          row.step_seconds ? fmt::format("{:.4g}", row.step_seconds->median * 1e3) : "",
          row.samples_per_second ? fmt::format("{:.4g}", *row.samples_per_second) : "",
          stepped ? format_seconds(result.seconds()) : "",
          metric ? fmt::format("{} {}", metric->name, metric_text(*metric)) : "",
          join(result.changes)};
}

nlohmann::json to_json(const PhaseResult& result) {
  nlohmann::json metrics = nlohmann::json::object();
  if (result.row.test)
    for (const Metric& metric : result.row.test->metrics) metrics[metric.name] = json_number(metric.value);
  return {{"phase", result.phase},        {"folder", result.folder.filename().string()},
          {"changes", result.changes},    {"plan", result.row.plan},
          {"steps", result.steps()},      {"seconds", result.seconds()},
          {"metrics", std::move(metrics)}};
}

constexpr const char* kPhasesFile = "phases.json";

/// Writes what is known of the phases so far.
void write_phases(const fs::path& folder, const Experiment& experiment, const std::vector<PhaseResult>& results) {
  nlohmann::json phases = nlohmann::json::array();
  for (const PhaseResult& result : results) phases.push_back(to_json(result));
  write_json_file(folder / kPhasesFile,
                  {{"experiment", experiment.name}, {"seconds", seconds_of(results)}, {"phases", std::move(phases)}});
}

/// Refuses to go on with another experiment: finished phases would not be what it says. Errors (user).
void check_same(const fs::path& folder, const TrainOptions& options, const Experiment& experiment) {
  if (!fs::exists(folder / kPhasesFile)) return;
  const nlohmann::json written = read_json_file(folder / kPhasesFile);
  const auto refuse = [&](const std::string& where, const std::string& was, const std::string& is) {
    fail_user({(folder / kPhasesFile).string(), fmt::format("{} was trained with {}", where, was),
               fmt::format("the experiment has {}", is), "resume the same experiment, or begin a new run"});
  };
  if (written.value("experiment", experiment.name) != experiment.name)
    refuse("it", "experiment " + written.value("experiment", ""), experiment.name);
  for (const nlohmann::json& phase : written.value("phases", nlohmann::json::array())) {
    const auto number = phase.value("phase", size_t(0));
    const auto was = phase.value("changes", std::vector<std::string>());
    if (number < 1 || number > experiment.phases.size())
      refuse(fmt::format("phase {}", number), join(was), fmt::format("{} phases", experiment.phases.size()));
    const std::vector<std::string> is = changes_of(options, experiment.phases[number - 1]);
    if (was != is) refuse(fmt::format("phase {}", number), join(was), join(is));
  }
}

void show(const fs::path& folder, const std::vector<PhaseResult>& results) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(results.size());
  for (const PhaseResult& result : results) rows.push_back(table_row(result));
  std::cout << "\n"
            << text_table({"phase", "plan", "steps", "ms/step", "samples/s", "time", "test", "changes"}, rows,
                          {2, 3, 4, 5})
            << fmt::format("\nall phases: {}\nrun folder: {}\n", format_seconds(seconds_of(results)), folder.string());
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

void check_frozen(const std::string& where, const RunSpec& experiment, const Model& model) {
  const std::vector<ParameterSpec> parameters = model.parameters();
  for (const std::string& pattern : experiment.frozen) {
    const bool known = std::any_of(parameters.begin(), parameters.end(),
                                   [&](const ParameterSpec& spec) { return freezes(pattern, spec.name); });
    if (!known)
      fail_user({where, fmt::format("frozen \"{}\"", pattern), "the model has no such parameter",
                 "use a name that `trireme verify` lists"});
  }
}

/// Checks before anything is trained what would otherwise end the run after the first phases. Returns the steps of each
/// phase; 0: not known. Errors (user).
std::vector<int64_t> check_phases(const TrainOptions& options, const Experiment& experiment) {
  const std::vector<int> devices =
      options.processes > 0 ? std::vector<int>{options.processes} : options.experiment.devices;
  std::vector<std::string> first;
  std::vector<int64_t> steps;
  Precision precision = experiment.precision;
  for (size_t k = 0; k < experiment.phases.size(); ++k) {
    const std::string where = fmt::format("phase {}", k + 1), plan = plan_of(options, experiment.phases[k]);
    check_plan_name(plan, where);
    if (k > 0 && is_update_policy(plan))
      fail_user({where, plan, "an update policy cannot begin with the state of another run", "choose another plan"});
    TrainSubject subject = open_subject(RunSpec{experiment_of(options, int(k) + 1).read()});
    subject.experiment.processes = options.processes > 0;
    check_device(subject.experiment);
    check_batch(subject.experiment, subject.data);
    check_frozen(where, subject.experiment, subject.model);
    if (k == 0) precision = subject.experiment.precision;
    if ((precision == Precision::fp64) != (subject.experiment.precision == Precision::fp64))
      fail_user({where, fmt::format("precision = {}", name_of(subject.experiment.precision)),
                 fmt::format("phase 1 has {}: weights have one width in all phases", name_of(precision)),
                 "use fp32 and bf16, or fp64 in all"});
    steps.push_back(is_update_policy(plan)
                        ? 0
                        : steps_of(subject.experiment.length,
                                   Batches(subject.experiment, subject.data).sampler().steps_per_epoch()));
    const std::vector<std::string> tensors = tensors_of(subject.model);
    if (k == 0) first = tensors;
    const auto [mine, of_first] = std::mismatch(tensors.begin(), tensors.end(), first.begin(), first.end());
    if (mine != tensors.end() || of_first != first.end())
      fail_user({where, mine != tensors.end() ? *mine : *of_first, "the model of phase 1 has other parameters",
                 "parameters must not depend on what a phase changes: choose another model, or the same sizes"});
    if (!is_planned(plan) && !is_update_policy(plan))
      check_shapes(subject.experiment, subject.model, subject.data,
                   choose_plan(plan, devices, subject.experiment, subject.model));
  }
  return steps;
}

/// The options of the phase's run, and the state with which it begins.
TrainOptions options_of_phase(const TrainOptions& options, const Experiment& experiment, int phase,
                              const fs::path& folder, const fs::path& before) {
  TrainOptions one = options;
  one.plan = plan_of(options, experiment.phases[size_t(phase) - 1]);
  one.names_plan = true;
  one.phases_plan = options.plan;
  one.experiment = experiment_of(options, phase);
  one.phases = folder;
  const int attempted = attempts(folder, phase);
  one.experiment.out = attempt_folder(folder, phase, attempted + 1);
  one.resume.clear();
  if (phase > 1) one.start_from = before;
  for (int a = attempted; a > 0 && one.resume.empty(); --a)
    if (newest_complete(attempt_folder(folder, phase, a))) one.resume = attempt_folder(folder, phase, a);
  if (!one.resume.empty()) one.start_from.clear();
  return one;
}

/// The row and the folder of the newest attempt of the phase, if that was trained to its end.
std::optional<PhaseResult> earlier_result(const fs::path& folder, int phase, int64_t steps) {
  const int attempted = attempts(folder, phase);
  if (attempted == 0) return std::nullopt;
  const fs::path newest = attempt_folder(folder, phase, attempted);
  std::optional<RunResult> row = finished_row(newest);
  if (!row) row = row_of_last_checkpoint(newest, steps);
  if (!row) return std::nullopt;
  return PhaseResult{.phase = phase, .changes = {}, .folder = newest, .row = std::move(*row)};
}

}  // namespace

std::vector<std::string> words_of_phase(const TrainOptions& phase) {
  std::vector<std::string> words{"train"};
  const std::vector<std::string> experiment = phase.experiment.forwarded();
  words.insert(words.end(), experiment.begin(), experiment.end());
  words.insert(words.end(), {"--plan", phase.plan, "--out", phase.experiment.out->string()});
  words.insert(words.end(), {"--phases", phase.phases.string(), "--phases-plan", phase.phases_plan});
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--resume", phase.resume.string());
  add("--start-from", phase.start_from.string());
  add("--backend", phase.backend);
  add("--profile", phase.prediction.profile.string());
  if (phase.details) words.emplace_back("--details");
  return words;
}

int run_phases(const TrainOptions& options, const Experiment& experiment,
               const std::function<int(const TrainOptions&)>& train_phase, const std::string& launched_by) {
  if (!options.json.empty())
    fail_user(
        {"--json", options.json, "a run in phases has a run.json for each", "leave it out, and read phases.json"});
  const int count = int(experiment.phases.size());
  const std::vector<int64_t> steps = check_phases(options, experiment);
  const fs::path folder = folder_of(options, experiment);
  check_same(folder, options, experiment);
  std::vector<PhaseResult> results;
  for (int phase = 1; phase <= count; ++phase) {
    const std::vector<std::string> changes = changes_of(options, experiment.phases[size_t(phase) - 1]);
    std::cout << fmt::format("{}phase {} of {}: {}\n", phase > 1 ? "\n" : "", phase, count, join(changes))
              << std::flush;
    std::optional<PhaseResult> result = earlier_result(folder, phase, steps[size_t(phase) - 1]);
    if (result) {
      std::cout << fmt::format("was trained: {}\n", result->folder.string());
    } else {
      const TrainOptions one =
          options_of_phase(options, experiment, phase, folder, results.empty() ? fs::path() : results.back().folder);
      if (const int code = train_phase(one); code != 0) {
        if (phase > 1 && code == kRunFailed && !newest_complete(*one.experiment.out))  // otherwise the run has said it
          std::cout << fmt::format("phase {} has no checkpoint; the phases before it are kept\nto resume: {}\n", phase,
                                   resume_command(launched_by, one, folder));
        return code;
      }
      result = earlier_result(folder, phase, 0);
      if (!result)
        fail_run({one.experiment.out->string(), "is not the folder of the phase that has just ended",
                  "rank 0 may have written it on another machine",
                  "name this machine first in --hosts, or use a folder that both see"});
    }
    result->changes = changes;
    results.push_back(std::move(*result));
    write_phases(folder, experiment, results);
  }
  show(folder, results);
  return 0;
}

}  // namespace trireme
