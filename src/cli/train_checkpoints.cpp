#include "cli/train_checkpoints.h"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <optional>

#include "base/text.h"
#include "base/text_parts.h"
#include "base/units.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/checkpoint_use.h"
#include "checkpoint/data_fingerprint.h"
#include "cli/launch_hosts.h"
#include "comm/backend_list.h"
#include "comm/rendezvous/process_place.h"
#include "experiment/make_plan.h"
#include "report/width.h"
#include "train/agreement/agreement_checkpoints.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kMostNames = 10'000;

/// The newest index that can be read; nullopt: there is none.
std::optional<CheckpointIndex> some_index(const fs::path& path) {
  try {
    if (is_checkpoint(path)) return read_checkpoint_index(path);
    const std::vector<FoundCheckpoint> found = find_checkpoints(checkpoint_folder_of(path));
    for (auto entry = found.rbegin(); entry != found.rend(); ++entry)
      if (entry->index) return entry->index;
  } catch (const Error&) {  // opening the checkpoint says what is wrong
  }
  return std::nullopt;
}

}  // namespace

bool keep_batch(const fs::path& path, const std::string& plan, RunSpec& experiment) {
  const bool may_agree = is_update_policy(plan) || (is_plan_file(plan) && experiment.replicas.batch_per_replica);
  if (experiment.batch_per_device == 0 || may_agree) return false;
  const std::optional<CheckpointIndex> index = some_index(path);
  if (!index) return false;
  const auto written = index->settings.find("batch");
  const std::optional<int64_t> batch =
      written == index->settings.end() ? std::nullopt : number_in<int64_t>(written->second);
  if (!batch || *batch < 1) return false;
  experiment.batch = *batch;
  return true;
}

void check_train_checkpoints(const TrainOptions& options, const RunSpec& experiment, const TaskData& data,
                             const Plan& plan) {
  if (plan.agreement.empty()) return check_checkpoints(experiment, data);
  check_agreement_checkpoints(experiment, data, plan, !options.resume.empty(), options.serves);
}

void check_start(const TrainOptions& options) {
  if (!options.start_from.empty() && !options.resume.empty())
    fail_user({"--start-from", "together with --resume",
               "a resumed run goes on where it was, a started one counts its steps from 0", "leave one of them out"});
}

Resumption open_start(const TrainOptions& options, const Plan& plan, const RunSpec& experiment, const Model& model) {
  if (!plan.agreement.empty())
    fail_user({"--start-from", options.start_from.string(), "update policies have states of their own",
               fmt::format("begin with the weights alone: --set model.weights={}", options.start_from.string())});
  if (experiment.initial_weights && options.phases.empty())
    fail_user({"--start-from", "together with model.weights", "both say with which weights the run begins",
               "leave one of them out"});
  return open_start(options.start_from, experiment, model);
}

fs::path place_for_checkpoints(const Experiment& experiment, const fs::path& run_folder, bool goes_on) {
  if (!experiment.checkpoint.wanted()) return {};
  const fs::path own = run_folder / kCheckpointFolder;
  if (goes_on && fs::exists(own)) return own;
  if (experiment.checkpoint.folder.empty()) return own;
  const fs::path wanted = fs::absolute(experiment.file).parent_path() / experiment.checkpoint.folder;
  std::error_code error;
  fs::create_directories(wanted, error);
  const std::string name = fs::absolute(run_folder).lexically_normal().filename().string();
  fs::path place;
  for (int i = 1; !error && i < kMostNames; ++i) {
    place = wanted / (i == 1 ? name : fmt::format("{}-{}", name, i));
    if (fs::create_directory(place, error)) break;  // otherwise it is another run's
  }
  if (!error) fs::create_directory_symlink(fs::absolute(place), own, error);
  if (error)
    fail_user({.where = wanted.string(),
               .what = "cannot hold the run's checkpoints",
               .why = error.message(),
               .next = "choose another checkpoint.folder, or leave it out to use the run's folder"});
  return place;
}

std::string fingerprint_for_checkpoints(const RunSpec& experiment, const TaskData& data) {
  if (experiment.own_data) return "";
  try {
    return data_fingerprint(*data.train);
  } catch (const std::exception&) {
    return "";
  }
}

std::vector<std::string> lines_of(const Resumption& resumption) {
  const CheckpointIndex& index = resumption.checkpoint.index;
  std::vector<std::string> lines{fmt::format("resumes after step {} (epoch {:.2f}) from {}, written under {}",
                                             index.step, index.epoch, resumption.path.string(), index.plan)};
  lines.insert(lines.end(), resumption.notices.begin(), resumption.notices.end());
  return lines;
}

GoesOnFrom point_of(const Resumption& resumption) {
  return {resumption.checkpoint.index.step, resumption.checkpoint.index.awaits_evaluation};
}

std::string resume_command(const std::string& launched_by, const TrainOptions& options, const fs::path& from) {
  ExperimentOptions experiment = options.experiment;
  if (!options.phases.empty()) experiment.phase = 0;
  std::vector<std::string> words = experiment.words_after({"train"});
  words.insert(words.end(), {"--plan", options.phases.empty() ? options.plan : options.phases_plan});
  if (!options.experiment.devices.empty())
    words.insert(words.end(), {"--devices", std::to_string(options.experiment.devices.front())});
  words.insert(words.end(), {"--resume", options.phases.empty() ? from.string() : options.phases.string()});
  return (launched_by.empty() ? "trireme" : launched_by) + " " + shell_line(words);
}

std::string start_again_with(const fs::path& from) {
  return "start all ranks again with --resume " + shell_quoted(from.string());
}

std::string comparison_line(const TrainOptions& options, const RunResult& row) {
  if (row.status != RunStatus::ok || options.processes > 0 || options.serves || options.elastic ||
      row.backend != kLocalBackend.name)
    return "";
  std::vector<std::string> words = options.experiment.words_after({"compare"});
  if (row.devices > 1) words.insert(words.end(), {"--devices", std::to_string(row.devices)});
  return "to compare with other plans: trireme " + shell_line(words) + "\n";
}

bool lacks_last_checkpoint(const RunResult& row) {
  return row.checkpoints && row.checkpoints->failed > 0 && !row.curve.empty() &&
         row.checkpoints->newest_step < row.curve.back().step;
}

std::string closing_lines(const TrainOptions& options, const RunResult& row, const fs::path& run_folder) {
  if (!row.checkpoints) return "";
  const CheckpointReport& report = *row.checkpoints;
  std::string text;
  if (report.written > 0) {
    const double seconds = row.curve.empty() ? 0 : row.curve.back().seconds;
    text = fmt::format("checkpoints: {} written, {} each, the newest after step {}; training paused for {} each",
                       report.written, format_bytes(report.bytes), report.newest_step,
                       format_seconds(report.stall_seconds / double(report.written + report.failed)));
    const bool is_real = row.backend != kVirtualBackend.name && !(row.replicas && row.replicas->clock == "modelled");
    if (is_real && report.stall_seconds < seconds)
      text += fmt::format(", {:.2g} % of its time", 100 * report.stall_seconds / seconds);
    text = wrap_lines(text + "\n", columns_of_output(STDOUT_FILENO, 0));
  }
  const bool goes_on = !options.phases.empty() && row.status == RunStatus::timed_out;  // with the next phase
  const bool whole = row.status == RunStatus::ok || goes_on;
  if (lacks_last_checkpoint(row)) text += "the checkpoint after the last step was not written\n";
  const std::optional<std::string> launched_by = environment()(kLaunchedByVariable);
  const fs::path from = report.newest_step > 0 ? run_folder : options.resume;
  // The run of all phases, or the launcher of an elastic run, prints how to continue.
  if (whole || from.empty() || options.elastic || !options.phases.empty()) return text;
  if (options.serves)
    return text + "to resume: start the server again with --resume " + shell_quoted(from.string()) +
           ", and the clients\n";
  const bool by_another_launcher = options.processes > 0 && !launched_by;
  text += "to resume: " +
          (by_another_launcher ? start_again_with(from) : resume_command(launched_by.value_or(""), options, from)) +
          "\n";
  return text;
}

}  // namespace trireme
