#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/devices/gpu.h"
#include "base/json_file.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/column_table.h"
#include "cli/commands.h"
#include "cli/described_devices.h"
#include "cli/experiment_header.h"
#include "cli/fork_server.h"
#include "cli/jobs.h"
#include "cli/launched_rows.h"
#include "cli/plan_choice.h"
#include "cli/row_process.h"
#include "cli/train_folder.h"
#include "experiment/batches.h"
#include "experiment/make_plan.h"
#include "experiment/read_emulation.h"
#include "experiment/replica_spec.h"
#include "experiment/run_device.h"
#include "experiment/run_spec.h"
#include "forecast/agreement_plan.h"
#include "plan/strategy.h"
#include "report/columns.h"
#include "report/progress.h"
#include "report/run_folder.h"
#include "report/run_json.h"
#include "report/table.h"
#include "train/agreement/early_end.h"
#include "train/compare.h"
#include "train/measure_step.h"
#include "train/result/repeats.h"
#include "train/trainer.h"
#include "trireme/error.h"
#include "trireme/program.h"

namespace trireme {
namespace {

/// The run folder of a job that is trained for the `number`-th time.
std::filesystem::path row_folder(const RunFolder& folder, const Job& job, int number) {
  return folder.path() / (number == 1 ? job.folder : fmt::format("{}-run-{}", job.folder, number));
}

/// Returns the command line of the process that trains a job into `folder`, or that launches the processes that train
/// it.
std::vector<std::string> row_arguments(const CompareOptions& options, const std::filesystem::path& folder,
                                       const Job& job) {
  std::vector<std::string> list = options.launched.words(job.processes);
  const bool is_launched = !list.empty();
  list.emplace_back("train");
  list = options_of_row(options.experiment, job).words_after(std::move(list));
  list.insert(list.end(), {"--messages", "--out", folder.string()});
  list.insert(list.end(), {"--plan", job.plan_file.empty() ? job.strategy : job.plan_file.string()});
  if (job.plan_file.empty() && !is_launched) list.insert(list.end(), {"--devices", std::to_string(job.devices)});
  return list;
}

/// Changes `experiment` so that its workers are processes. Errors (user): settings that processes do not support.
void use_processes(const CompareOptions& options, RunSpec& experiment) {
  const int processes = options.launched.processes();
  const auto refuse = [&](const char* key, const char* why) {
    fail_user({experiment.where(key), "does not work where processes are compared", why, "leave it out"});
  };
  if (experiment.adapt) refuse("adapt", "a run of processes cannot change its plan");
  if (experiment.links) refuse("cluster.link", "it emulates links between the threads of one process");
  if (!options.experiment.devices.empty())
    for (const int devices : experiment.devices)
      if (devices > processes)
        fail_user({"--devices", std::to_string(devices),
                   fmt::format("launched: {}, each of them one worker", counted(processes, "process", "processes")),
                   "launch more, or compare on fewer"});
  if (options.experiment.devices.empty()) experiment.devices = {processes};
  experiment.private_replicas = experiment.processes = true;
}

/// Finds how many processes train a job: under an update policy each is a replica. Returns its row if the launched ones
/// cannot train it.
std::optional<RunResult> use_launched(const LaunchedRows& launched, const RunSpec& experiment, const Model& model,
                                      Job& job) {
  job.processes = job.devices;
  std::string why;
  if (is_plan_file(job.strategy) || is_update_policy(job.strategy)) {
    const Plan plan = is_plan_file(job.strategy) ? load_plan_file(job.strategy, experiment, model)
                                                 : plan_with_agreement(job.strategy, experiment, model, job.devices);
    if (!plan.agreement.empty()) {
      job.processes = plan.replicas;
      if (make_policy(plan.agreement, {}, facts_of(experiment, plan))->shares_memory())
        why = "its replicas share memory: use trireme compare";
    }
  }
  if (job.processes > launched.processes())
    why = fmt::format("needs {}, and {} are launched", counted(job.processes, "process", "processes"),
                      launched.processes());
  else if (job.processes < 2 && job.devices > 1) why = "has one replica, which is one process: use trireme compare";
  if (why.empty()) return std::nullopt;
  return row_without_run(job, RunStatus::skipped, why);
}

std::string speed_in_words(const Link& link) {
  return fmt::format("{}/s, {} for a small message", format_bytes(link.bandwidth), format_seconds(link.latency));
}

/// Measures the connections between the processes, for predictions and planners. Returns false if the user stopped it.
bool measure_processes(const CompareOptions& options, ForkServer& forks, RunSpec& experiment, Progress& progress) {
  if (!options.launched.are_processes() || experiment.device != c10::DeviceType::CPU) return true;
  const std::optional<ProcessMachines> measured = in_phase(&progress, "measuring what connects the processes", [&] {
    return measure_machines(options.launched, options.experiment, forks, progress);
  });
  if (!measured) return false;
  const ProcessMachines& machines = *measured;
  std::vector<std::string> ways;
  if (machines.within.bandwidth > 0) ways.push_back("within a machine " + speed_in_words(machines.within));
  if (machines.network.bandwidth > 0) ways.push_back("between machines " + speed_in_words(machines.network));
  progress.say(fmt::format("{}; {}", options.launched.in_words(), join(ways, "; ")));
  experiment.process_machines = std::make_shared<const ProcessMachines>(machines);
  return true;
}

void say_what_runs(const RunSpec& experiment, const TaskData& data, const ExperimentResult& result,
                   Progress& progress) {
  progress.say(fmt::format("{}: {}, batch {}, {}, seed {}", result.experiment, result.model, batch_text(result),
                           result.precision, result.seed));
  progress.say(fmt::format("data: {}", result.data_source));
  if (data.inputs)
    for (const std::string& line : column_table(*data.inputs)) progress.say(line);
  for (const std::string& line : result.initial_values) progress.say(line);
  progress.say(fmt::format("machine: {}", result.machine));
  if (const std::string device = device_in_words(experiment); !device.empty()) progress.say(device);
  for (const std::string& note : experiment.model_findings.notes)
    progress.say(fmt::format("{}: {}", experiment.model_name, note));
}

/// The facts about a job before any job runs.
struct Known {
  std::optional<RunResult> row;  ///< set if the job cannot run
  std::optional<SimulatedStep> predicted;
};

/// What planning and predicting need.
struct Planning {
  const RunSpec& experiment;
  const Model& model;
  const TaskData& data;
  Predictions& predictions;
  const CompareOptions& options;
  const RunFolder& folder;
  ForkServer& forks;

  /// Returns the function that measures a trial step: `in_threads`, or processes like those of the rows. `job`: the row
  /// whose batch the step has where batches are per device; null: that of the plan's devices.
  MeasureStep trial(MeasureStep (*in_threads)(const RunSpec&, const Model&, const TaskData&, const std::atomic<bool>&),
                    const Job* job, Progress& progress) const;
};

MeasureStep Planning::trial(MeasureStep (*in_threads)(const RunSpec&, const Model&, const TaskData&,
                                                      const std::atomic<bool>&),
                            const Job* job, Progress& progress) const {
  const RunSpec own = job ? of_row(experiment, job->strategy, job->devices) : experiment;
  MeasureStep alone = in_threads(as_threads(own), model, data, interrupted_by_user());
  if (!options.launched.are_processes()) return alone;
  const std::filesystem::path file = folder.path() / "planned" / "trial.json";
  std::filesystem::create_directories(file.parent_path());
  const auto of_job =
      std::make_shared<const ExperimentOptions>(job ? options_of_row(options.experiment, *job) : options.experiment);
  // `together` refers to the options.
  return [of_job, alone = std::move(alone),
          together = trial_between_processes(options.launched, *of_job, model, file.string(), forks, progress)](
             const Plan& plan) { return plan.devices == 1 ? alone(plan) : together(plan); };
}

/// Finds the plan of a planner's job and simulates the job. A planner's job without a plan is skipped. `problems`: why
/// there is no prediction, in words. May be called again.
void plan_and_predict(Job& job, Known& known, const Planning& p, std::vector<std::string>& problems) {
  const bool planned = is_planned(job.strategy);
  if (known.row || interrupted_by_user() || !(planned || p.options.predict)) return;
  if (planned) job.plan_file.clear();
  try {
    const Plan plan = p.predictions.plan(job.strategy, job.devices);
    if (planned) {
      job.plan_file = p.folder.path() / "planned" / (job.folder + ".json");
      std::filesystem::create_directories(job.plan_file.parent_path());
      write_file_atomically(job.plan_file, plan_text(plan, p.model));
    }
    if (!p.options.predict) return;
    known.predicted = predict(of_row(p.experiment, job.strategy, job.devices), p.model, plan,
                              p.predictions.source(plan), {.timeline = false, .epoch_samples = p.data.train->size()})
                          .predicted;
    if (!known.predicted) return;
    known.predicted->core_seconds = p.predictions.core_seconds();
    known.predicted->memory_speed = p.predictions.memory_speed();
  } catch (const Error& error) {
    if (planned && job.plan_file.empty()) known.row = row_without_run(job, RunStatus::skipped, first_line(error));
    else problems.push_back(fmt::format("{}: no prediction: {}", job.label, first_line(error)));
  }
}

/// Plans and predicts before any job runs, while the machine is otherwise idle. Repeats this as long as layers are
/// measured again. Shows why rows could not be predicted.
void settle_predictions(std::vector<Job>& jobs, std::vector<Known>& known, const Planning& p, Progress& progress) {
  const std::vector<Known> before = known;
  std::vector<std::string> problems;
  in_phase(&progress, "predicting: measuring layers, planning", [&] {
    p.predictions.settle([&] {
      known = before;
      problems.clear();
      for (size_t j = 0; j < jobs.size(); ++j) plan_and_predict(jobs[j], known[j], p, problems);
    });
  });
  for (const std::string& problem : problems) progress.say(problem);
}

/// Lets trial steps choose among the plans that were found for the strategy `exact`.
void try_finalists(std::vector<Job>& jobs, std::vector<Known>& known, const Planning& p, Progress& progress) {
  const bool own_batches = awaits_devices(p.experiment);
  if (!own_batches && !p.predictions.use_final_trials(p.trial(trial_of_finalists, nullptr, progress))) return;
  std::vector<std::string> problems;
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (jobs[j].strategy != kExact.name || known[j].row) continue;
    if (own_batches && !p.predictions.use_final_trials(p.trial(trial_of_finalists, &jobs[j], progress))) return;
    in_phase(&progress, "planning: trial steps of " + jobs[j].label,
             [&] { plan_and_predict(jobs[j], known[j], p, problems); });
    if (const std::string line = p.predictions.final_trials()->take_line(p.model); !line.empty())
      progress.say(fmt::format("{}: {}", jobs[j].label, line));
  }
  for (const std::string& problem : problems) progress.say(problem);
}

/// Measures trial steps, so that predictions include the time that whole steps take beyond their layers.
void try_steps(const Planning& p, Progress& progress) {
  const std::string line = in_phase(&progress, "predicting: trial steps", [&] {
    return p.predictions.try_steps(p.experiment.devices, p.trial(trial_of_steps, nullptr, progress));
  });
  if (!line.empty()) progress.say("predictions: " + line);
}

/// Plans and predicts all jobs.
void plan_all(std::vector<Job>& jobs, std::vector<Known>& known, const Planning& p, Progress& progress) {
  try_steps(p, progress);
  settle_predictions(jobs, known, p, progress);
  try_finalists(jobs, known, p, progress);
  p.predictions.keep();
  release_kept_gpu_memory();  // the rows are other processes, on the same GPUs
}

/// Returns false, and shows a message, if the connections between the workers cannot be measured. The processes of a
/// row then make their own plan.
bool can_predict(const CompareOptions& options, const RunSpec& experiment, Progress& progress) {
  if (!options.launched.are_processes() || experiment.device == c10::DeviceType::CPU) return true;
  if (options.predict) progress.say("no predictions: what connects the GPUs of processes is not measured");
  return false;
}

/// Runs the jobs that have no row yet, and adds all rows to `result` one by one. Further runs of the rows follow in the
/// same order, so that other work on the machine affects all rows equally. A row that failed is not run again.
void run_jobs(const std::vector<Job>& jobs, const std::vector<Known>& known, const CompareOptions& options,
              const RunSpec& experiment, Progress& progress, RunFolder& folder, ForkServer& forks,
              ExperimentResult& result) {
  const auto run = [&](const Job& job, int number) {
    const std::string label =
        options.repeats == 1 ? job.label : fmt::format("{}, run {} of {}", job.label, number, options.repeats);
    const std::filesystem::path own = row_folder(folder, job, number);
    RunResult row =
        run_row_process(row_arguments(options, own, job), own, label, job, experiment.time_limit, progress, forks);
    if (!job.plan_file.empty()) name_row(job, row);
    progress.end(label, row);
    return row;
  };
  std::vector<std::vector<RunResult>> runs(jobs.size());
  for (int number = 1; number <= options.repeats; ++number)
    for (size_t j = 0; j < jobs.size(); ++j) {
      const bool stopped = interrupted_by_user();
      if (number > 1 && (stopped || result.rows[j].status != RunStatus::ok)) continue;
      if (stopped)
        runs[j].push_back(row_without_run(jobs[j], RunStatus::interrupted, "stopped by the user before it began"));
      else runs[j].push_back(known[j].row ? *known[j].row : run(jobs[j], number));
      if (number == 1) result.rows.emplace_back();
      RunResult& row = result.rows[j] = merged_repeats(runs[j]);
      row.predicted = known[j].predicted;
      row.batch = jobs[j].samples;
      if (stopped || known[j].row) progress.end(jobs[j].label, row);
      complete_comparison(result);
      try {
        folder.update(result);
      } catch (const Error& error) {
        progress.say(fmt::format("{}; the comparison continues", error.what()));
      }
    }
  for (size_t j = 0; j < jobs.size(); ++j) {
    const auto done =
        std::count_if(runs[j].begin(), runs[j].end(), [](const RunResult& run) { return run.status == RunStatus::ok; });
    if (result.rows[j].status == RunStatus::ok && done < options.repeats)
      result.rows[j].warnings.push_back(
          fmt::format("run {} instead of {}: stopped by the user", counted(done, "time"), options.repeats));
  }
}

/// Returns a row without a run if the experiment watches evaluations and runs of this strategy cannot be ended by them;
/// nullopt: they can.
std::optional<RunResult> without_early_stopping(const Job& job, const RunSpec& experiment, const Model& model,
                                                const TaskData& data) {
  if (!experiment.early_stopping.watches()) return std::nullopt;
  const bool has_policy = !is_plan_file(job.strategy) && is_update_policy(job.strategy);
  try {
    check_early_stopping(experiment, data,
                         has_policy ? plan_with_agreement(job.strategy, experiment, model, job.devices) : Plan());
    return std::nullopt;
  } catch (const Error& error) {
    return row_without_run(job, RunStatus::skipped, first_line(error));
  }
}

}  // namespace

int run_compare(const CompareOptions& options) {
  ForkServer forks(run_program);  // before there are threads
  interrupted_by_user();          // from now on Ctrl-C leaves a readable folder
  RunSpec experiment{options.experiment.read_for_devices()};
  refuse_elastic_rows(experiment);
  check_target("--json", options.json);
  if (options.launched.are_processes()) use_processes(options, experiment);
  const int most_devices = *std::max_element(experiment.devices.begin(), experiment.devices.end());
  check_emulation(experiment, most_devices);
  check_described_devices(experiment.strategies, "strategies", most_devices, options.experiment, experiment,
                          options.prediction);
  check_device(experiment);
  Progress progress;
  const TaskData data = in_phase(&progress, "reading the data", [&] { return open_data(experiment.data); });
  check_batch(experiment, data);
  const Model model = in_phase(&progress, "building the model", [&] { return build_model(experiment, data); });
  std::vector<Job> jobs = list_jobs(experiment, model, /*to_run=*/true);
  std::vector<Known> known;
  known.reserve(jobs.size());
  for (Job& job : jobs) {
    std::optional<RunResult> row = ruled_out(job, experiment, model, data, cluster_of(experiment, job.devices));
    if (!row) row = without_early_stopping(job, experiment, model, data);
    if (!row && options.launched.are_processes()) row = use_launched(options.launched, experiment, model, job);
    known.push_back({std::move(row), {}});
  }
  if (std::all_of(known.begin(), known.end(), [](const Known& one) { return one.row.has_value(); }))
    fail_user({"strategies", "none of them can run", known.front().row->reason, ""});

  // Read here for its errors and its report. Each row's process reads its own.
  ExperimentResult result = in_phase(&progress, "reading the initial weights", [&] {
    return experiment_header(experiment, data, with_initial_weights(experiment, model));
  });
  RunFolder folder(options.experiment.out.value_or(default_run_path(experiment.name, result.started)),
                   options.experiment.out ? IfExists::refuse : IfExists::pick_another);
  if (data.inputs) folder.write_inputs(*data.inputs);
  say_what_runs(experiment, data, result, progress);
  std::optional<Predictions> predictions;
  const bool plans = std::any_of(jobs.begin(), jobs.end(), [](const Job& job) { return is_planned(job.strategy); });
  if ((options.predict || plans) && can_predict(options, experiment, progress) &&
      measure_processes(options, forks, experiment, progress)) {
    in_phase(&progress, "predicting: measuring links and layers",
             [&] { predictions.emplace(experiment, model, data, options.prediction); });
    plan_all(jobs, known, {experiment, model, data, *predictions, options, folder, forks}, progress);
  }
  run_jobs(jobs, known, options, experiment, progress, folder, forks, result);
  if (predictions)
    if (const std::string line = predictions->compared_with(result.rows); !line.empty())
      progress.say("predictions: " + line);
  const bool all_there =
      in_phase(&progress, "writing the report", [&] { return finish_folder(folder, result).empty(); });
  std::cout << "\n" << answer(result, options.details, standard_output_style());
  std::cout << "run folder: " << folder.path().string() << "\n";
  if (all_there) std::cout << "report: " << (folder.path() / "report.html").string() << "\n";
  std::cout << std::flush;
  if (!options.json.empty()) write_json_file(options.json, to_json(result));
  auto any = [&](auto... statuses) {
    return std::any_of(result.rows.begin(), result.rows.end(),
                       [&](const RunResult& r) { return ((r.status == statuses) || ...); });
  };
  if (any(RunStatus::failed, RunStatus::interrupted) || interrupted_by_user() || !all_there) return 1;
  if (any(RunStatus::ok, RunStatus::timed_out, RunStatus::does_not_fit)) return 0;
  // No strategy could run: an error of the input, not a comparison.
  fail_user({"strategies", "none of them can run", result.rows.front().reason, ""});
}

}  // namespace trireme
