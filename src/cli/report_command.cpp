#include <spdlog/spdlog.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json_file.h"
#include "cli/commands.h"
#include "cli/trace_reader.h"
#include "report/html.h"
#include "report/run_json.h"
#include "report/table.h"
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

void name_cause(const std::filesystem::path& folder, const std::string& cause) {
  const fs::path run = folder / "run.json";
  try {
    nlohmann::json written = read_json_file(run);
    ExperimentResult result = from_json(written, run.string());
    if (result.rows.size() != 1 || result.rows.front().status != RunStatus::failed) return;
    std::string& reason = result.rows.front().reason;
    reason = cause + (reason.empty() ? "" : "; ") + reason;
    written.at("rows").at(0).at("reason") = reason;
    add_timelines(folder, result);
    write_file_atomically(run, written.dump(1) + "\n");  // laid out as the run wrote it
    write_file_atomically(folder / "report.html", html_report(result));
  } catch (const std::exception& error) {  // the launcher prints the cause too
    spdlog::debug("{} still has the first reason: {}", run.string(), error.what());
  }
}

int run_report(const std::filesystem::path& folder, bool details) {
  if (!fs::is_directory(folder))
    fail_user({folder.string(), "is not a run folder", "there is no such folder",
               "name one that train or compare has written"});
  const fs::path run = folder / "run.json", report = folder / "report.html";
  if (!fs::exists(run))
    fail_user({folder.string(), "is not a run folder", "it contains no run.json",
               "name one that train or compare has written"});
  const nlohmann::json written = read_json_file(run);
  ExperimentResult result = from_json(written, run.string());
  const bool traced = add_timelines(folder, result);
  write_file_atomically(report, html_report(result));
  std::cout << answer(result, details, standard_output_style());
  if (const std::string status = written.value("status", "finished"); status != "finished")
    std::cout << "this run is not finished: its run.json says \"" << status << "\"\n";
  if (!traced) std::cout << "no trace.json: the report is without timelines\n";
  std::cout << "report: " << report.string() << "\n";
  return 0;
}

}  // namespace trireme
