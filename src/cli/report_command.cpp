#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_file.h"
#include "cli/commands.h"
#include "cli/elastic_group.h"
#include "cli/launch_hosts.h"
#include "cli/left_behind.h"
#include "cli/phase_results.h"
#include "cli/trace_reader.h"
#include "experiment/read_phases.h"
#include "report/earlier_run.h"
#include "report/html.h"
#include "report/run_json.h"
#include "report/table.h"
#include "report/two_runs.h"
#include "trireme/error.h"

namespace trireme {

namespace fs = std::filesystem;

/// Adds the timelines of the folder's trace. Returns false if the folder has no trace.
static bool add_timelines(const fs::path& folder, ExperimentResult& result) {
  const fs::path trace = folder / "trace.json";
  if (!fs::exists(trace)) return false;
  read_timelines(read_json_file(trace), result, trace.string());
  return true;
}

/// Adds the row of a run that wrote no result. Returns false if the run has one, or left no record of a step.
static bool add_row_from_records(const fs::path& folder, ExperimentResult& result) {
  if (!result.rows.empty()) return false;
  std::optional<RunResult> row = row_from_records(folder);
  if (!row) return false;
  set_devices(read_records(folder), *row);
  if (const auto newest = newest_complete(folder)) row->checkpoints = CheckpointReport{.newest_step = newest->step};
  result.rows.push_back(std::move(*row));
  return true;
}

void name_cause(const std::filesystem::path& folder, const std::string& cause, const std::filesystem::path& json) {
  const fs::path run = folder / "run.json";
  try {
    nlohmann::json written = read_json_file(run);
    ExperimentResult result = from_json(written, run.string());
    const bool killed = add_row_from_records(folder, result);
    if (result.rows.size() != 1 || result.rows.front().status != RunStatus::failed) return;
    std::string& reason = result.rows.front().reason;
    reason = killed || reason.empty() ? cause : cause + "; " + reason;
    if (killed) written = to_json(result);
    written.at("rows").at(0).at("reason") = reason;
    add_timelines(folder, result);
    write_file_atomically(run, written.dump(1) + "\n");  // laid out as the run wrote it
    write_file_atomically(folder / "report.html",
                          html_report({&result, folder.string(), earlier_steps(folder, result)}));
    if (!json.empty() && fs::exists(json)) {  // last: a copy that cannot be read leaves the folder as it should be
      nlohmann::json copy = read_json_file(json);
      copy.at("rows").at(0).at("reason") = reason;
      write_json_file(json, copy);
    }
  } catch (const std::exception& error) {  // the launcher prints the cause too
    spdlog::debug("{} still has the first reason: {}", run.string(), error.what());
  }
}

namespace {

/// A run folder as the report shows it.
struct FolderRead {
  ExperimentResult result;
  ReportedRun reported;  ///< refers to `result`
  std::string status;    ///< of its run.json
  bool traced = false;
};

bool has_phases(const fs::path& folder) { return fs::exists(folder / kFirstPhase) && !fs::exists(folder / "run.json"); }

std::unique_ptr<FolderRead> read_run(const fs::path& folder) {
  if (!fs::is_directory(folder))
    fail_user({folder.string(), "is not a run folder", "there is no such folder",
               "name one that train or compare has written"});
  const fs::path run = folder / "run.json";
  if (has_phases(folder))
    fail_user({folder.string(), "has a run for each phase", "this report is of one run",
               fmt::format("name a phase's folder: {}", (folder / kFirstPhase).string())});
  if (!fs::exists(run))
    fail_user({folder.string(), "is not a run folder", "it contains no run.json",
               "name one that train or compare has written"});
  const nlohmann::json written = read_json_file(run);
  auto read = std::make_unique<FolderRead>();
  read->result = from_json(written, run.string());
  read->status = written.value("status", "finished");
  if (read->status != "finished") add_row_from_records(folder, read->result);
  read->traced = add_timelines(folder, read->result);
  read->reported = {&read->result, folder.string(), earlier_steps(folder, read->result)};
  return read;
}

/// Returns a line about what is missing in the report of the folder `name` ("": there is only one folder).
std::string lacks(const FolderRead& read, const std::string& name) {
  std::string text;
  if (read.status != "finished") {
    text += fmt::format(
        "this run is not finished: {}its run.json says \"{}\"; if it was killed, the report has what it "
        "had written\n",
        name, read.status);
  }
  const std::vector<RunResult>& rows = read.result.rows;
  if (read.status != "finished" || (rows.size() == 1 && rows.front().status != RunStatus::ok)) {
    if (const auto newest = newest_complete(read.reported.folder))
      text += fmt::format("{}the newest complete checkpoint is of step {}; to go on, train with --resume {}\n", name,
                          newest->step, shell_quoted(read.reported.folder));
  }
  if (!read.traced) text += fmt::format("no trace.json: {}the report is without timelines\n", name);
  return text;
}

int report_one(const fs::path& folder, const fs::path& out, bool details) {
  const std::unique_ptr<FolderRead> read = read_run(folder);
  const fs::path report = out.empty() ? folder / "report.html" : out;
  write_file_atomically(report, html_report(read->reported));
  std::cout << answer(read->result, details, standard_output_style()) << lacks(*read, "")
            << "report: " << report.string() << "\n";
  return 0;
}

/// The page over all phases of a training.
int report_phases(const fs::path& folder, const fs::path& out) {
  const PhasesFile file = read_phases_file(folder);
  const std::vector<PhaseResult> results = read_results(folder, file);
  if (results.empty())
    fail_user({folder.string(), "has no finished phase", "a report of phases is of those that are finished",
               fmt::format("for the first one: trireme report {}", shell_quoted((folder / kFirstPhase).string()))});
  const fs::path page = out.empty() ? folder / "report.html" : out;
  write_phases_page(page, file.experiment, results);
  std::cout << phases_text(folder, page, results);
  const int next = results.back().phase + 1;
  if (const int attempted = attempts(folder, next); attempted > 0)
    std::cout << fmt::format("phase {} is not finished: trireme report {}; to go on, train with --resume {}\n", next,
                             shell_quoted(attempt_folder(folder, next, attempted).string()),
                             shell_quoted(folder.string()));
  return 0;
}

/// Returns a file of the working folder that does not exist yet: report-of-two.html, report-of-two-2.html, ...
fs::path free_report_of_two() {
  fs::path path = "report-of-two.html";
  for (int i = 2; fs::exists(path); ++i) path = fmt::format("report-of-two-{}.html", i);
  return path;
}

int report_two(const std::vector<fs::path>& folders, const fs::path& out, bool details) {
  const std::unique_ptr<FolderRead> a = read_run(folders[0]), b = read_run(folders[1]);
  const fs::path report = out.empty() ? free_report_of_two() : out;
  write_file_atomically(report, html_report(a->reported, b->reported));
  const TableStyle style = standard_output_style();
  if (details)
    for (const auto& [name, read] : {std::pair(kRunNames[0], a.get()), std::pair(kRunNames[1], b.get())})
      std::cout << name << ": " << read->reported.folder << "\n" << answer(read->result, true, style) << "\n";
  std::cout << changes_text(changes_between(a->result, b->result), style) << lacks(*a, a->reported.folder + ": ")
            << lacks(*b, b->reported.folder + ": ") << "report: " << report.string() << "\n";
  return 0;
}

}  // namespace

int run_report(const std::vector<fs::path>& folders, const fs::path& out, bool details) {
  if (folders.size() == 1 && has_phases(folders.front())) return report_phases(folders.front(), out);
  return folders.size() == 2 ? report_two(folders, out, details) : report_one(folders.front(), out, details);
}

}  // namespace trireme
