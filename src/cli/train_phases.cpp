#include "cli/train_phases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/text.h"
#include "checkpoint/checkpoint_folder.h"
#include "cli/described_devices.h"
#include "cli/exit_codes.h"
#include "cli/phase_results.h"
#include "cli/plan_choice.h"
#include "cli/train_checkpoints.h"
#include "cli/train_folder.h"
#include "experiment/batches.h"
#include "experiment/read_phases.h"
#include "experiment/run_device.h"
#include "plan/strategies.h"
#include "program/graph.h"
#include "report/run_folder.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

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

/// Errors (user): the folder belongs to another experiment, so the finished phases would not match this one.
void check_same(const fs::path& folder, const PhasesFile& written, const TrainOptions& options,
                const Experiment& experiment) {
  const auto refuse = [&](const std::string& where, const std::string& was, const std::string& is) {
    fail_user({(folder / kPhasesFile).string(), fmt::format("{} was trained with {}", where, was),
               fmt::format("the experiment has {}", is), "resume the same experiment, or begin a new run"});
  };
  if (!written.experiment.empty() && written.experiment != experiment.name)
    refuse("it", "experiment " + written.experiment, experiment.name);
  for (const PhasesFile::Phase& phase : written.phases) {
    const std::string where = fmt::format("phase {}", phase.phase);
    if (phase.phase < 1 || phase.phase > int(experiment.phases.size()))
      refuse(where, join(phase.changes), fmt::format("{} phases", experiment.phases.size()));
    const std::vector<std::string> is = changes_of(options, experiment.phases[size_t(phase.phase) - 1]);
    if (phase.changes != is) refuse(where, join(phase.changes), join(is));
  }
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

/// Errors (user): a plan with an agreement in a training of several phases. Its replicas have states of their own,
/// which one phase cannot pass to the next. `k`: the phase's number, from 0.
void check_agreement(const std::string& where, const std::string& plan, size_t k, size_t phases) {
  if (k > 0)
    fail_user({where, plan, "an update policy cannot begin with the state of another run", "choose another plan"});
  if (phases > 1)
    fail_user({where, plan, "the next phase cannot begin with the states of an update policy's replicas",
               "choose another plan, or train each phase alone: --phase 2 --set model.weights=FOLDER"});
}

/// The common facts of the phases that were checked so far.
struct Common {
  std::vector<std::string> tensors;  ///< of phase 1
  Precision precision;               ///< of phase 1
};

/// Reads the experiment of a phase, with the global batch that its run will have.
RunSpec experiment_of_phase(const TrainOptions& options, const std::string& plan, int phase) {
  const RunSpec read{experiment_of(options, phase).read_for_devices()};
  RunSpec experiment = of_row(read, plan, options.processes > 0 ? options.processes : read.devices.front());
  if (options.resume.empty()) return experiment;
  if (const std::optional<ResumableAttempt> begun = newest_resumable(options.resume, phase))
    keep_batch(begun->folder, plan, experiment);
  return experiment;
}

/// Checks one phase and returns its steps; 0: not known. `k`: its number, from 0. Errors (user).
int64_t check_phase(const TrainOptions& options, const Experiment& experiment, size_t k, Common& common) {
  const std::string where = fmt::format("phase {}", k + 1), plan = plan_of(options, experiment.phases[k]);
  check_plan_name(plan, where);
  if (is_update_policy(plan)) check_agreement(where, plan, k, experiment.phases.size());
  const TrainSubject subject = open_subject(experiment_of_phase(options, plan, int(k) + 1));
  check_device(subject.experiment);
  check_batch(subject.experiment, subject.data);
  check_frozen(where, subject.experiment, subject.model);
  const std::vector<std::string> tensors = tensors_of(subject.model);
  if (k == 0) common = {tensors, subject.experiment.precision};
  if ((common.precision == Precision::fp64) != (subject.experiment.precision == Precision::fp64))
    fail_user({where, fmt::format("precision = {}", name_of(subject.experiment.precision)),
               fmt::format("phase 1 has {}: weights have one width in all phases", name_of(common.precision)),
               "use fp32 and bf16, or fp64 in all"});
  const auto [mine, of_first] =
      std::mismatch(tensors.begin(), tensors.end(), common.tensors.begin(), common.tensors.end());
  if (mine != tensors.end() || of_first != common.tensors.end())
    fail_user({where, mine != tensors.end() ? *mine : *of_first, "the model of phase 1 has other parameters",
               "parameters must not depend on what a phase changes: choose another model, or the same sizes"});
  if (is_update_policy(plan)) return 0;
  const int64_t steps =
      steps_of(subject.experiment.length, Batches(subject.experiment, subject.data).sampler().steps_per_epoch());
  const bool is_over = !options.resume.empty() && newest_result(options.resume, int(k) + 1, steps);
  if (is_planned(plan) || is_over) return steps;  // it is found later, or may have been for another number of workers
  const std::vector<int> devices =
      options.processes > 0 ? std::vector<int>{options.processes} : options.experiment.devices;
  const Plan chosen = choose_plan(plan, devices, subject.experiment, subject.model);
  if (!chosen.agreement.empty()) check_agreement(where, plan, k, experiment.phases.size());
  if (options.processes > 0 && chosen.workers() != options.processes)
    fail_user({where, plan,
               fmt::format("it is for {}, and there are {} processes", counted(chosen.workers(), "worker"),
                           options.processes),
               "start as many, or choose another plan"});
  check_shapes(subject.experiment, subject.model, subject.data, chosen);
  return steps;
}

/// Finds errors that would otherwise end the run after the first phases, before anything is trained. Returns the steps
/// of each phase; 0: not known. Errors (user): name the phase.
std::vector<int64_t> check_phases(const TrainOptions& options, const Experiment& experiment) {
  Common common{{}, experiment.precision};
  std::vector<int64_t> steps;
  for (size_t k = 0; k < experiment.phases.size(); ++k) {
    try {
      steps.push_back(check_phase(options, experiment, k, common));
    } catch (const Error& error) {
      Diagnosis diagnosis = error.diagnosis();
      if (!diagnosis.where.starts_with("phase")) diagnosis.where = fmt::format("phase {}: {}", k + 1, diagnosis.where);
      throw Error(error.blame(), std::move(diagnosis));
    }
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
  one.experiment.out = attempt_folder(folder, phase, attempts(folder, phase) + 1);
  const std::optional<ResumableAttempt> begun = newest_resumable(folder, phase);
  one.resume = begun ? begun->folder : fs::path();
  one.start_from = begun ? fs::path() : before;
  return one;
}

/// Prints how to continue the run after a phase that did not end. (The phase's own run does not print it:
/// closing_lines.)
void print_how_to_continue(const TrainOptions& phase, int number, const std::string& launched_by) {
  const std::optional<ResumableAttempt> newest = newest_resumable(phase.phases, number);
  if (number == 1 && !newest) return;  // nothing is lost
  const std::string where =
      newest ? fmt::format("from its newest complete checkpoint, after step {}", newest->step) : "from its beginning";
  std::cout << fmt::format("phase {} can go on {}\nto resume: {}\n", number, where,
                           resume_command(launched_by, phase, phase.phases))
            << std::flush;
}

/// The run's folder. The destructor removes it if nothing was trained, so that a run with an error in its input leaves
/// no folder.
class PhasesFolder {
 public:
  PhasesFolder(const TrainOptions& options, const Experiment& experiment)
      : path_(folder_of(options, experiment)), is_new_(options.resume.empty()) {}
  ~PhasesFolder() {
    std::error_code ignored;
    if (!is_new_ || attempts(path_, 1) > 0) return;
    fs::remove(path_ / kPhasesFile, ignored);
    fs::remove(path_, ignored);  // only if it is empty
  }
  PhasesFolder(const PhasesFolder&) = delete;
  PhasesFolder& operator=(const PhasesFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
  const bool is_new_;
};

}  // namespace

void refuse_folder_of_phases(const TrainOptions& options) {
  const bool resumes = !options.resume.empty();
  const fs::path& folder = resumes ? options.resume : options.start_from;
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder / kFirstPhase, ignored) ||
      fs::is_directory(folder / kCheckpointFolder, ignored))
    return;
  int phase = resumes ? options.experiment.phase : options.experiment.phase - 1;
  if (phase < 1)
    for (phase = 1; attempts(folder, phase + 1) > 0;) ++phase;
  const int attempt = attempts(folder, phase);
  fail_user({resumes ? "--resume" : "--start-from", folder.string(),
             "it is the folder of a run in phases, which has a run for each",
             attempt > 0 ? fmt::format("name the folder of phase {}: {}", phase,
                                       attempt_folder(folder, phase, attempt).string())
                         : fmt::format("name a phase's folder; phase {} has not begun there", phase)});
}

std::vector<std::string> words_of_phase(const TrainOptions& phase) {
  std::vector<std::string> words = phase.experiment.words_after({"train"});
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
  if (options.resume.empty()) refuse_folder_of_phases(options);
  const int count = int(experiment.phases.size());
  const std::vector<int64_t> steps = check_phases(options, experiment);
  const PhasesFolder made(options, experiment);
  const fs::path& folder = made.path();
  const PhasesFile written = read_phases_file(folder);
  check_same(folder, written, options, experiment);
  const fs::path begins_with = options.resume.empty() ? options.start_from : written.begins_with;
  if (!options.start_from.empty()) write_phases(folder, experiment.name, begins_with, {});
  std::vector<PhaseResult> results;
  for (int phase = 1; phase <= count; ++phase) {
    const std::vector<std::string> changes = changes_of(options, experiment.phases[size_t(phase) - 1]);
    std::cout << fmt::format("{}phase {} of {}: {}\n", phase > 1 ? "\n" : "", phase, count, join(changes))
              << std::flush;
    std::optional<PhaseResult> result = newest_result(folder, phase, steps[size_t(phase) - 1]);
    if (result) {
      std::cout << fmt::format("was trained: {}\n", result->folder.string());
    } else {
      const TrainOptions one =
          options_of_phase(options, experiment, phase, folder, results.empty() ? begins_with : results.back().folder);
      if (const int code = train_phase(one); code != 0) {
        if (code != kUserError) print_how_to_continue(one, phase, launched_by);
        return code;
      }
      result = newest_result(folder, phase, 0);
      if (!result)
        fail_run({one.experiment.out->string(), "is not the folder of the phase that has just ended",
                  "rank 0 may have written it on another machine",
                  "name this machine first in --hosts, or use a folder that both see"});
    }
    result->changes = changes;
    results.push_back(std::move(*result));
    write_phases(folder, experiment.name, begins_with, results);
  }
  std::cout << phases_text(folder, folder / "report.html", results) << std::flush;
  return 0;
}

}  // namespace trireme
