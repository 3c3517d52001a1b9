#include "cli/row_process.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstring>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/json_file.h"
#include "base/units.h"
#include "cli/child.h"
#include "cli/fork_server.h"
#include "cli/options.h"
#include "experiment/experiment.h"
#include "report/progress.h"
#include "report/run_json.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kGraceSeconds = 20;  // for start-up and the last evaluation, in addition to the experiment's own limit

StepReport step_report_from(const nlohmann::json& m) {
  StepReport r;
  r.point = {m.at("step").get<int64_t>(), m.at("samples").get<int64_t>(), m.at("seconds").get<double>(),
             number_from(m.at("loss"))};
  r.total_steps = m.at("total_steps").get<int64_t>();
  r.step_seconds = m.at("step_seconds").get<double>();
  r.samples_per_second = m.at("samples_per_second").get<double>();
  r.seconds_left = m.at("seconds_left").get<double>();
  return r;
}

}  // namespace

void refuse_elastic_rows(const Experiment& experiment) {
  if (experiment.elastic)
    fail_user({experiment.where("elastic"), "does not work where plans are compared",
               "a row must end with the workers with which it began", "leave it out, or add --set elastic=false"});
}

std::string reason_of(const ChildEnd& end) {
  if (end.signal)
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread calls it
    return fmt::format("its process was ended by signal {} ({})", end.signal, ::strsignal(end.signal));
  if (end.last_words.empty()) return fmt::format("its process ended with exit code {}", end.exit_code);
  constexpr std::string_view kPrefix = "trireme: ";
  return end.last_words.substr(end.last_words.starts_with(kPrefix) ? kPrefix.size() : 0);
}

namespace {

/// Sets the status and reason of a row whose child ended without reporting it.
void describe(const ChildEnd& end, double time_limit, RunResult& row) {
  if (interrupted_by_user()) {
    row.status = RunStatus::interrupted;
    row.reason = kStoppedByUser;
  } else if (end.killed_for_time) {
    row.status = RunStatus::timed_out;
    row.reason = fmt::format("killed: did not end within time_limit = {} and {} s more", format_seconds(time_limit),
                             kGraceSeconds);
  } else {
    row.reason = reason_of(end);
  }
}

/// Rank 0 reports its row before the launcher knows how the other ranks ended.
void complete_reason(const std::filesystem::path& folder, std::string& reason) {
  try {
    const std::string written = read_json_file(folder / "run.json").at("rows").at(0).at("reason");
    if (written.ends_with(reason)) reason = written;
  } catch (const std::exception& error) {
    spdlog::debug("{}: {}", folder.string(), error.what());  // the row has what rank 0 knew
  }
}

}  // namespace

RunResult run_row_process(const std::vector<std::string>& arguments, const std::filesystem::path& folder,
                          const std::string& label, const Job& job, double time_limit, Progress& progress,
                          ForkServer& forks) {
  progress.begin(label, 0);
  std::optional<RunResult> reported;
  std::vector<CurvePoint> seen;
  std::optional<ShownSteps> steps(std::in_place, progress, label);
  const ChildEnd end = run_child(
      arguments, time_limit > 0 ? time_limit + kGraceSeconds : 0, interrupted_by_user(),
      [&](const nlohmann::json& message) {
        if (message.value("type", "") == "step") {
          const StepReport step = step_report_from(message);
          steps->update(step);
          seen.push_back(step.point);
        }
        if (message.value("type", "") == "result") {
          reported = row_from_json(message.at("row"), job.label);
          message.at("measured_steps").get_to(reported->measured_steps);
        }
      },
      &forks, [&](std::string_view warning) { progress.say(fmt::format("{}: {}", label, warning)); });
  if (reported) {
    if (reported->status == RunStatus::failed) complete_reason(folder, reported->reason);
    return *reported;
  }
  RunResult row = row_without_run(job, RunStatus::failed, "");
  describe(end, time_limit, row);
  row.curve = seen;  // the points that it reported: at most ten per second
  return row;
}

}  // namespace trireme
