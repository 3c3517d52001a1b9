#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/devices/memory_speed.h"
#include "base/json_file.h"
#include "base/machine.h"
#include "cli/bf16_speed.h"
#include "cli/commands.h"
#include "cli/described_devices.h"
#include "cli/plan_choice.h"
#include "cli/train_checkpoints.h"
#include "cli/train_folder.h"
#include "cli/train_phases.h"
#include "cli/train_process.h"
#include "cli/virtual_machines.h"
#include "comm/backend_list.h"
#include "comm/rendezvous/process_place.h"
#include "data/search_folders.h"
#include "experiment/batches.h"
#include "experiment/read_emulation.h"
#include "experiment/run_device.h"
#include "experiment/run_spec.h"
#include "forecast/agreement_plan.h"
#include "report/earlier_run.h"
#include "report/progress.h"
#include "train/agreement/agreement_checkpoints.h"
#include "train/agreement/early_end.h"
#include "train/forecaster.h"
#include "train/measure_step.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Trains. If the experiment sets `adapt`, the run may change its plan according to its measurements. Rows of a
/// comparison do not adapt.
RunResult train_or_adapt(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan,
                         TrainObserver& observer, CheckpointUse checkpoints) {
  if (!experiment.adapt)
    return train(experiment, model, data, plan, observer, interrupted_by_user(), nullptr, std::move(checkpoints));
  PlanForecaster forecaster(experiment, model, plan);
  PlanAdapter adapter(forecaster, plan.name, forecaster.at_first(), {.probes = experiment.links.has_value()});
  return train(experiment, model, data, plan, observer, interrupted_by_user(), &adapter, std::move(checkpoints));
}

/// Notes how fast the memory was before and after a training in real time on cores.
RunResult with_memory_speed(const RunSpec& experiment, const std::function<RunResult()>& train_it) {
  const bool is_here = experiment.device == c10::DeviceType::CPU && experiment.virtual_machines_in_words.empty();
  const std::optional<double> before = is_here ? memory_speed() : std::nullopt;
  RunResult row = train_it();
  if (before && row.core_seconds)
    if (const std::optional<double> after = memory_speed()) row.memory_speed = (*before + *after) / 2;
  return row;
}

/// Trains as one of several processes if the environment places this one among them. Returns the exit code, or nothing
/// if the workers are threads of this process.
std::optional<int> train_as_process(const TrainOptions& options, const BackendKind* backend) {
  const bool is_virtual = backend && backend->modelled_time;
  const std::optional<ElasticGroup> elastic_group = own_elastic_group();
  const PlaceOptions wanted{.needs_address = !(backend && (backend->finds_ranks || is_virtual)),
                            .even_alone = elastic_group.has_value() || !options.backend.empty()};
  const std::optional<ProcessPlace> place = process_place(environment(), wanted);
  if (!place) return std::nullopt;
  if (is_virtual) refuse_processes();
  return run_train_process(options, *place, elastic_group);
}

/// Errors (user): the requested machines or backend need workers that are processes, or modelled time.
void check_threads_can(const TrainOptions& options, const BackendKind* backend) {
  if (backend && backend->modelled_time) return;
  refuse_described_machines(options.prediction);
  if (backend)
    fail_user({"--backend", options.backend, "the workers of this run are threads: there is one process",
               fmt::format("start several: {} trireme train ...", backend->start)});
}

/// Errors (user): `elastic`, which would have no effect.
void refuse_elastic_threads(const Experiment& experiment) {
  if (experiment.elastic)
    fail_user({experiment.where("elastic"), "is for trireme launch",
               "the workers of this run are threads, which end with their process",
               "start it with trireme launch, or add --set elastic=false"});
}

/// Where the batch is per device: sets that of all devices, or of the checkpoint that the run resumes.
void set_batch_of_run(const TrainOptions& options, RunSpec& experiment) {
  experiment = of_row(experiment, options.plan, experiment.devices.front());
  if (!options.resume.empty()) keep_batch(options.resume, options.plan, experiment);
}

/// Chooses the plan for modelled time, and prepares the experiment for it. `predictions` gets what was modelled.
Plan plan_in_virtual_time(const TrainOptions& options, TrainSubject& subject, Progress* progress,
                          std::optional<Predictions>& predictions) {
  check_virtual_time(subject.experiment, options.plan, options.prediction);
  in_phase(progress, "measuring links and layers",
           [&] { predictions.emplace(subject.experiment, subject.model, subject.data, options.prediction); });
  Plan plan = in_phase(progress, "planning", [&] {
    return choose_virtual_plan(options.plan, options.experiment.devices, subject.experiment, subject.model,
                               *predictions);
  });
  live_in_virtual_time(plan, *predictions, options.prediction, subject.experiment);
  predictions->keep();
  return plan;
}

/// Chooses the plan of a run in real time.
Plan plan_to_run(const TrainOptions& options, const TrainSubject& subject, Progress* progress) {
  const RunSpec& experiment = subject.experiment;
  const Model& model = subject.model;
  const std::vector<int>& devices = options.experiment.devices;
  if (is_update_policy(options.plan)) {
    const int count = devices.empty() ? experiment.devices.front() : devices.front();
    check_runs_here(count, "--plan " + options.plan);
    return plan_with_agreement(options.plan, experiment, model, count);
  }
  return in_phase(progress, "planning", [&] {
    const PlanTrials trials{trial_of_finalists(experiment, model, subject.data, interrupted_by_user()), progress};
    return choose_or_find_plan(options.plan, devices, experiment, model, subject.data, options.prediction, &trials);
  });
}

/// Opens the checkpoint that the run resumes, if there is one, and adds its facts to `show` and `checkpoints`.
void resume(const TrainOptions& options, const TrainSubject& subject, TrainShow& show, CheckpointUse& checkpoints) {
  std::function<void(const std::filesystem::path&)> keep_earlier;
  if (!options.resume.empty()) {
    Resumption resumption =
        open_resumption(options.resume, *show.plan, subject.experiment, subject.model, subject.data);
    note_factors_left(*show.plan, subject.experiment, subject.model, resumption);
    show.initial_values = lines_of(resumption);
    show.notes.insert(show.notes.end(), show.initial_values.begin(), show.initial_values.end());
    keep_earlier = [from = point_of(resumption), path = resumption.path](const std::filesystem::path& folder) {
      keep_earlier_steps(path, from, folder);
    };
    checkpoints.resumed = std::move(resumption.checkpoint);
  } else if (!options.start_from.empty()) {
    Resumption start = open_start(options, *show.plan, subject.experiment, subject.model);
    show.initial_values = start.notices;
    show.notes.insert(show.notes.end(), start.notices.begin(), start.notices.end());
    checkpoints.resumed = std::move(start.checkpoint);
  }
  show.on_folder = [&, keep_earlier](const std::filesystem::path& folder) {
    if (keep_earlier) keep_earlier(folder);
    if (!options.is_row()) checkpoints.folder = place_for_checkpoints(subject.experiment, folder);
    if (checkpoints.folder.empty()) return;
    allow_seconds_after_interrupt(kSecondsForLastCheckpoint);
    checkpoints.data = fingerprint_for_checkpoints(subject.experiment, subject.data);
  };
}

/// Creates the world of replicas that are not in this process.
using MakeWorld = std::function<std::unique_ptr<HubWorld>(RunAgreement&)>;

RunResult train_subject(const TrainOptions& options, const TrainSubject& subject, const Plan& plan,
                        TrainObserver& observer, CheckpointUse checkpoints, const MakeWorld& make_world) {
  const RunSpec& experiment = subject.experiment;
  const std::atomic<bool>& interrupted = interrupted_by_user();
  if (!plan.agreement.empty())
    return train(experiment, subject.model, subject.data, plan, observer, interrupted, nullptr, std::move(checkpoints),
                 nullptr, {make_world, make_world ? ReplicaHosting::clients : ReplicaHosting::threads});
  return with_memory_speed(experiment, [&] {
    // Rows of a comparison do not adapt.
    return options.messages
               ? train(experiment, subject.model, subject.data, plan, observer, interrupted, nullptr,
                       std::move(checkpoints))
               : train_or_adapt(experiment, subject.model, subject.data, plan, observer, std::move(checkpoints));
  });
}

}  // namespace

int run_train(const TrainOptions& options, const MakeWorld& make_world) {
  interrupted_by_user();  // from now on Ctrl-C leaves a readable folder
  const BackendKind* backend = look_up_backend(options.backend);
  check_start(options);
  if (!make_world)
    if (const std::optional<int> code = train_as_process(options, backend)) return *code;
  check_threads_can(options, backend);
  if (!options.measure.empty())
    fail_user({"--measure", options.measure, "is for the processes that a comparison launches", "leave it out"});
  check_target("--json", options.json);
  const bool may_have_phases = !make_world && !options.messages;
  RunSpec asked{may_have_phases ? options.experiment.read_with_phases() : options.experiment.read_for_devices()};
  refuse_elastic_threads(asked);
  if (!asked.phases.empty() && asked.phase == 0)
    return run_phases(options, asked, [](const TrainOptions& phase) { return run_train(phase); });
  if (options.phases.empty()) refuse_folder_of_phases(options);
  if (!make_world)
    check_described_devices({options.plan}, "--plan", asked.devices.front(), options.experiment, asked,
                            options.prediction);
  set_batch_of_run(options, asked);
  Progress phases;
  Progress* const progress = options.messages ? nullptr : &phases;  // standard output is for messages then
  if (const std::vector<std::string>& listed = asked.strategies;
      progress && !make_world && !options.names_plan && listed.size() == 1 && listed.front() != options.plan)
    progress->say(fmt::format("trains plan {0}; the experiment's strategy is {1}: --plan {1} trains that one",
                              options.plan, listed.front()));
  TrainSubject subject = open_subject(std::move(asked), progress);
  subject.experiment.own_data = options.own_data;
  check_device(subject.experiment);
  check_batch(subject.experiment, subject.data);
  if (progress && !backend && subject.experiment.precision == Precision::bf16 &&
      subject.experiment.device == c10::DeviceType::CPU)
    if (const std::string warning = bf16_warning(bf16_speed(cache_folder())); !warning.empty())
      progress->say("warning: " + warning);
  // A comparison checks its largest row.
  if (const std::vector<int>& devices = options.experiment.devices; !devices.empty() && !options.messages)
    check_emulation(subject.experiment, devices.front());
  std::optional<Predictions> virtual_machines;
  // check_threads_can leaves one backend: modelled time
  const Plan plan = backend ? plan_in_virtual_time(options, subject, progress, virtual_machines)
                            : plan_to_run(options, subject, progress);
  check_shapes(subject.experiment, subject.model, subject.data, plan);
  check_early_stopping(subject.experiment, subject.data, plan,
                       make_world ? ReplicaHosting::clients : ReplicaHosting::threads);
  if (!options.is_row()) check_train_checkpoints(options, subject.experiment, subject.data, plan);
  TrainShow show{.plan = &plan, .evaluations = bool(make_world)};
  const int gpus = int(visible_devices(subject.experiment.device).size()), workers = plan.workers();
  if (std::string device = device_in_words(subject.experiment, std::min(gpus, workers)); !device.empty())
    show.notes.push_back(std::move(device));
  if (virtual_machines) {
    show.notes.push_back("times are modelled, except the time left: " + subject.experiment.virtual_machines_in_words);
    show.describe = [&](ExperimentResult& result) { virtual_machines->describe_prices(result); };
  }
  CheckpointUse checkpoints;
  resume(options, subject, show, checkpoints);
  const Train train_it = [&](TrainObserver& observer) {
    return train_subject(options, subject, plan, observer, std::move(checkpoints), make_world);
  };
  return train_into_folder(options, subject, show, train_it);
}

}  // namespace trireme
