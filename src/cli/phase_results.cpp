#include "cli/phase_results.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "checkpoint/checkpoint_folder.h"
#include "cli/left_behind.h"
#include "cli/text_table.h"
#include "cli/train_checkpoints.h"
#include "report/run_json.h"
#include "study/page.h"
#include "study/study.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The run of a phase that was trained to its end; nullopt: it was not, or the state at its end could not be written.
std::optional<ExperimentResult> finished_run(const fs::path& run) {
  const fs::path file = run / "run.json";
  if (!fs::exists(file)) return std::nullopt;
  try {
    const nlohmann::json content = read_json_file(file);
    if (content.value("status", "") != "finished") return std::nullopt;
    ExperimentResult result = from_json(content, file.string());
    const bool ended = result.rows.size() == 1 && (result.rows.front().status == RunStatus::ok ||
                                                   result.rows.front().status == RunStatus::timed_out);
    // The next phase begins with the last checkpoint. If that is missing, this phase is not over: it continues from an
    // older one.
    const bool is_over = ended && !lacks_last_checkpoint(result.rows.front());
    return is_over ? std::optional(std::move(result)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // the run was killed while it wrote the file
  }
}

/// The run that was killed after its last step, before it wrote its result; nullopt: steps are left.
std::optional<ExperimentResult> run_of_last_checkpoint(const fs::path& run, int64_t steps) {
  const std::optional<FoundCheckpoint> newest = newest_complete(run);
  if (!newest || steps == 0 || (newest->step < steps && newest->index->ended.empty())) return std::nullopt;
  const CheckpointIndex& index = *newest->index;
  RunResult row;
  row.plan = index.plan;
  row.ended_early = index.ended;
  row.curve.push_back({index.step, index.samples, index.seconds, index.loss});
  if (!index.metrics.empty()) row.test = EvaluationPoint{.metrics = index.metrics};
  ExperimentResult result;
  result.rows.push_back(std::move(row));
  return result;
}

double seconds_of(const std::vector<PhaseResult>& results) {
  double seconds = 0;
  for (const PhaseResult& result : results) seconds += result.seconds();
  return seconds;
}

std::vector<std::string> table_row(const PhaseResult& result) {
  const RunResult& row = result.row();
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
  if (result.row().test)
    for (const Metric& metric : result.row().test->metrics) metrics[metric.name] = json_number(metric.value);
  return {{"phase", result.phase},       {"folder", result.folder.filename().string()},
          {"changes", result.changes},   {"plan", result.row().plan},
          {"steps", result.steps()},     {"ended_early", result.row().ended_early},
          {"seconds", result.seconds()}, {"metrics", std::move(metrics)}};
}

/// Moves the points of a phase's row behind those of the phases before it.
void move_behind(const CurvePoint& before, double epochs, RunResult& row) {
  for (EvaluationPoint& point : row.evaluations) {
    point.step += before.step;
    point.samples += before.samples;
    point.seconds += before.seconds;
    point.epoch += epochs;
  }
}

/// The page of all phases is that of a study whose runs they are.
StudyResult as_study(const std::string& experiment, const std::vector<PhaseResult>& results, Study& study) {
  study.name = experiment;
  study.title = fmt::format("{}: all phases", experiment);
  study.about = {fmt::format("{} that were trained one after another, in {}. Charts count from the first step of all.",
                             counted(int64_t(results.size()), "phase"), format_seconds(seconds_of(results)))};
  StudyPart part{.title = "Phases"};
  part.together = true;
  part.table = {"batch", "time per step", "throughput", "result", "peak memory"};
  part.charts = {{ChartKind::progress, "time", "result"},
                 {ChartKind::progress, "time", "loss"},
                 {ChartKind::progress, "samples", "result"}};
  study.parts = {std::move(part)};
  StudyResult shown;
  shown.study = &study;
  CurvePoint before;
  double epochs = 0;
  for (const PhaseResult& result : results) {
    const std::string name = fmt::format("phase {}", result.phase);
    StudyRun& as_run = study.runs.emplace_back();
    as_run.name = as_run.title = name;
    study.parts.front().text.push_back(fmt::format("{}: {}; plan {}; {} in {}", name, join(result.changes),
                                                   result.row().plan, counted(result.steps(), "step"),
                                                   format_seconds(result.seconds())));
    StudyRunResult& run = shown.runs.emplace_back();
    run.folder = result.folder.filename().string();
    run.rows.result = result.run;
    RunResult& row = run.rows.result.rows.front();
    move_behind(before, epochs, row);
    if (!row.evaluations.empty()) epochs = row.evaluations.back().epoch;
    if (row.curve.empty()) continue;
    before.step += row.curve.back().step;
    before.samples += row.curve.back().samples;
    before.seconds += row.curve.back().seconds;
  }
  return shown;
}

}  // namespace

fs::path attempt_folder(const fs::path& folder, int phase, int attempt) {
  return folder / (attempt == 1 ? fmt::format("phase-{}", phase) : fmt::format("phase-{}.{}", phase, attempt));
}

int attempts(const fs::path& folder, int phase) {
  int count = 0;
  while (fs::exists(attempt_folder(folder, phase, count + 1))) ++count;
  return count;
}

std::optional<ResumableAttempt> newest_resumable(const fs::path& folder, int phase) {
  for (int attempt = attempts(folder, phase); attempt > 0; --attempt) {
    const fs::path run = attempt_folder(folder, phase, attempt);
    if (const std::optional<FoundCheckpoint> newest = newest_complete(run)) return ResumableAttempt{run, newest->step};
  }
  return std::nullopt;
}

std::optional<PhaseResult> newest_result(const fs::path& folder, int phase, int64_t steps) {
  const int attempted = attempts(folder, phase);
  if (attempted == 0) return std::nullopt;
  const fs::path newest = attempt_folder(folder, phase, attempted);
  std::optional<ExperimentResult> run = finished_run(newest);
  if (!run) run = run_of_last_checkpoint(newest, steps);
  if (!run) return std::nullopt;
  return PhaseResult{.phase = phase, .changes = {}, .folder = newest, .run = std::move(*run)};
}

void write_phases(const fs::path& folder, const std::string& experiment, const fs::path& begins_with,
                  const std::vector<PhaseResult>& results) {
  nlohmann::json phases = nlohmann::json::array();
  for (const PhaseResult& result : results) phases.push_back(to_json(result));
  nlohmann::json all{{"experiment", experiment}, {"seconds", seconds_of(results)}, {"phases", std::move(phases)}};
  if (!begins_with.empty()) all["begins_with"] = fs::absolute(begins_with).string();
  write_json_file(folder / kPhasesFile, all);
  if (!results.empty()) write_phases_page(folder / "report.html", experiment, results);
}

void write_phases_page(const fs::path& page, const std::string& experiment, const std::vector<PhaseResult>& results) {
  Study study;
  const StudyResult shown = as_study(experiment, results, study);
  write_file_atomically(page, study_page(shown));
}

PhasesFile read_phases_file(const fs::path& folder) {
  const fs::path file = folder / kPhasesFile;
  if (!fs::exists(file)) return {};
  const nlohmann::json written = read_json_file(file);
  PhasesFile read{.experiment = written.value("experiment", ""), .begins_with = written.value("begins_with", "")};
  for (const nlohmann::json& phase : written.value("phases", nlohmann::json::array()))
    read.phases.push_back({.phase = phase.value("phase", 0),
                           .changes = phase.value("changes", std::vector<std::string>()),
                           .folder = folder / phase.value("folder", ""),
                           .steps = phase.value("steps", int64_t{0})});
  return read;
}

std::vector<PhaseResult> read_results(const fs::path& folder, const PhasesFile& file) {
  std::vector<PhaseResult> results;
  for (const PhasesFile::Phase& phase : file.phases) {
    std::optional<PhaseResult> result = newest_result(folder, phase.phase, phase.steps);
    if (!result || result->folder != phase.folder)
      fail_user({(folder / kPhasesFile).string(), fmt::format("phase {}: {}", phase.phase, phase.folder.string()),
                 "is not the newest run of this phase, or has no result", "resume the run with trireme train"});
    result->changes = phase.changes;
    results.push_back(std::move(*result));
  }
  return results;
}

std::string phases_text(const fs::path& folder, const fs::path& page, const std::vector<PhaseResult>& results) {
  std::vector<std::vector<std::string>> rows;
  rows.reserve(results.size());
  for (const PhaseResult& result : results) rows.push_back(table_row(result));
  return "\n" +
         text_table({"phase", "plan", "steps", "ms/step", "samples/s", "time", "test", "changes"}, rows, {2, 3, 4, 5}) +
         fmt::format("\nall phases: {}\nrun folder: {}\nreport: {}\n", format_seconds(seconds_of(results)),
                     folder.string(), page.string());
}

}  // namespace trireme
