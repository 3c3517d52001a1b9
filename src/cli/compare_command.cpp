#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "cli/child.h"
#include "cli/commands.h"
#include "cli/experiment_header.h"
#include "plan/named.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "report/table.h"
#include "train/compare.h"
#include "train/trainer.h"

namespace trireme {
namespace {

constexpr double kGraceSeconds = 20;  // for start-up and the last evaluation, beyond the experiment's own limit

/// One child to run, or a row that is known before.
struct Job {
  std::string strategy;  // what to give to --plan
  int devices = 1;
  std::string label;     // in progress bars; also the folder's name
};

bool is_file(const std::string& name) {
  struct stat info {};
  return ::stat(name.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::vector<Job> list_jobs(const Experiment& experiment) {
  std::vector<Job> jobs;
  for (const std::string& written : experiment.strategies) {
    for (const std::string& strategy : expand_strategy(written)) {
      if (is_single(strategy) || is_file(strategy)) {
        jobs.push_back({strategy, 1, is_file(strategy) ? std::filesystem::path(strategy).stem().string() : strategy});
        continue;
      }
      for (int devices : experiment.devices) jobs.push_back({strategy, devices, fmt::format("{} x{}", strategy, devices)});
    }
  }
  return jobs;
}

std::string folder_name(const std::string& label) {
  std::string name = label;
  for (char& c : name)
    if (c == ' ' || c == ':' || c == '/' || c == '=' || c == ',') c = '-';
  return name;
}

StepReport step_report_from(const nlohmann::json& m) {
  StepReport r;
  r.point = {m.at("step").get<int64_t>(), m.at("samples").get<int64_t>(), m.at("seconds").get<double>(),
             m.at("loss").is_null() ? std::numeric_limits<double>::quiet_NaN() : m.at("loss").get<double>()};
  r.total_steps = m.at("total_steps").get<int64_t>();
  r.step_seconds = m.at("step_seconds").get<double>();
  r.samples_per_second = m.at("samples_per_second").get<double>();
  r.seconds_left = m.at("seconds_left").get<double>();
  return r;
}

class Comparison {
 public:
  Comparison(const CompareOptions& options, const Experiment& experiment, Progress& progress, RunFolder& folder)
      : options_(options), experiment_(experiment), progress_(progress), folder_(folder) {}

  RunResult run(const Job& job) {
    RunResult row;
    row.strategy = job.strategy.substr(0, job.strategy.find(':'));
    row.plan = job.label;
    row.devices = job.devices;
    progress_.begin(job.label, 0);
    std::optional<RunResult> reported;
    ChildEnd end = run_child(arguments(job), experiment_.time_limit > 0 ? experiment_.time_limit + kGraceSeconds : 0,
                             interrupted_by_user(), [&](const nlohmann::json& message) {
                               if (message.value("type", "") == "step") progress_.update(job.label, step_report_from(message));
                               if (message.value("type", "") == "result") reported = row_from_json(message.at("row"), job.label);
                             });
    if (reported) row = *reported;
    else describe(end, row);
    progress_.end(job.label, row);
    return row;
  }

 private:
  std::vector<std::string> arguments(const Job& job) const {
    std::vector<std::string> list{"train"};
    auto forwarded = options_.experiment.forwarded();
    list.insert(list.end(), forwarded.begin(), forwarded.end());
    list.insert(list.end(), {"--plan", job.strategy, "--devices", std::to_string(job.devices), "--messages", "--out",
                             (folder_.path() / folder_name(job.label)).string()});
    return list;
  }

  /// A child that ended without its row.
  void describe(const ChildEnd& end, RunResult& row) const {
    row.status = RunStatus::failed;
    if (interrupted_by_user()) {
      row.status = RunStatus::interrupted;
      row.reason = "stopped by the user";
    } else if (end.killed_for_time) {
      row.status = RunStatus::timed_out;
      row.reason = fmt::format("killed: did not end within time_limit = {} and {} s more", format_seconds(experiment_.time_limit),
                               kGraceSeconds);
    } else if (end.signal) {
      row.reason = fmt::format("its process was ended by signal {} ({})", end.signal, ::strsignal(end.signal));
    } else {
      row.reason = end.last_words.empty() ? fmt::format("its process ended with exit code {}", end.exit_code) : end.last_words;
      constexpr std::string_view kPrefix = "trireme: ";
      if (row.reason.starts_with(kPrefix)) row.reason.erase(0, kPrefix.size());
    }
  }

  const CompareOptions& options_;
  const Experiment& experiment_;
  Progress& progress_;
  RunFolder& folder_;
};

/// Strategies that can be ruled out before anything runs: bad names and plans fail the whole command, a number of devices that a
/// strategy cannot use skips its row.
std::optional<RunResult> ruled_out(const Job& job, const Experiment& experiment, const Model& model) {
  try {
    if (is_file(job.strategy)) {
      validate(read_plan(job.strategy, model), model, experiment.batch, job.strategy);
    } else {
      const Cluster cluster = Cluster::uniform(job.devices, experiment.device_memory);
      named_plan(job.strategy, model, cluster, experiment.batch, {}, experiment.micro_batches);
    }
    return std::nullopt;
  } catch (const Error& error) {
    const auto names = known_strategies();
    if (is_file(job.strategy) || std::find(names.begin(), names.end(), job.strategy) == names.end()) throw;
    RunResult row;
    row.strategy = job.strategy.substr(0, job.strategy.find(':'));
    row.plan = job.label;
    row.devices = job.devices;
    row.status = RunStatus::skipped;
    row.reason = first_line(error);
    return row;
  }
}

}  // namespace

int run_compare(const CompareOptions& options) {
  const auto& interrupted = interrupted_by_user();
  const Experiment experiment = options.experiment.read();
  const TaskData data = open_data(experiment.data);
  const Model model = build_model(experiment, data);
  const std::vector<Job> jobs = list_jobs(experiment);
  std::vector<std::optional<RunResult>> known;
  for (const Job& job : jobs) known.push_back(ruled_out(job, experiment, model));

  ExperimentResult result = experiment_header(experiment, data);
  RunFolder folder(options.experiment.out.value_or(default_run_path(experiment.name, result.started)),
                   options.experiment.out ? IfExists::refuse : IfExists::pick_another);
  Progress progress;
  progress.say(fmt::format("{}: {} on {}, batch {}, {}", result.experiment, result.model, result.data_source, result.batch,
                           result.machine));
  Comparison comparison(options, experiment, progress, folder);
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (interrupted) break;
    if (known[j]) progress.end(jobs[j].label, *known[j]);
    result.rows.push_back(known[j] ? *known[j] : comparison.run(jobs[j]));
    complete_comparison(result);
    folder.update(result);
  }
  folder.finish(result);
  if (!options.json.empty()) write_json_file(options.json, to_json(result));
  std::cout << "\n" << comparison_table(result, standard_output_style());
  std::cout << "run folder: " << folder.path().string() << "\nreport: " << (folder.path() / "report.html").string() << "\n";
  const bool failed = std::any_of(result.rows.begin(), result.rows.end(), [](const RunResult& row) {
    return row.status == RunStatus::failed || row.status == RunStatus::interrupted;
  });
  return failed ? 1 : 0;
}

}  // namespace trireme
