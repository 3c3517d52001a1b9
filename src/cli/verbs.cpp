#include "cli/verbs.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/bf16_speed.h"
#include "cli/calibrate_command.h"
#include "cli/commands.h"
#include "cli/cost_source_flags.h"
#include "cli/data_command.h"
#include "cli/doctor.h"
#include "cli/help_command.h"
#include "cli/known_names.h"
#include "cli/launch_command.h"
#include "cli/option_values.h"
#include "cli/plan_command.h"
#include "cli/study_command.h"
#include "cli/train_process.h"
#include "comm/backend_list.h"
#include "comm/rendezvous/process_place.h"
#include "data/search_folders.h"
#include "update/registry.h"

namespace trireme {
namespace {

constexpr int kMostRepeats = 1000;
constexpr const char* kDetailsHelp = "print all tables (default: the main table and the verdict)";
constexpr const char* kPlanHelp =
    "a plan file, a strategy, or degrees, \"data=2,tensor=2\" (see trireme help strategies)";
constexpr const char* kTrainedPlanHelp =
    "a plan file, a strategy, or degrees, \"data=2,tensor=2\" (see trireme help strategies); or an update policy and "
    "its keys, \"local-sgd,every=16 steps\" (see trireme help policies)";

std::string backend_help() {
  std::vector<std::string> processes, others;
  for (const BackendKind* kind : backend_kinds())
    if (kind->can_be_chosen()) (kind->processes ? processes : others).push_back(kind->name + std::string(kind->help));
  return fmt::format("communication backend of workers that are processes: {}; {}", join(processes, ", or "),
                     join(others, "; "));
}

void add_compare(CLI::App& app, CompareOptions& o) {
  auto* verb = app.add_subcommand("compare", "train under every strategy and compare them");
  verb->footer([] { return known_names(); });
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  o.experiment.add_devices(*verb, true);
  verb->add_option(
          "--strategies", o.experiment.strategies,
          "strategies, degrees, update policies or plan files, separated by commas: "
          "data,1f1b,recompute=all,data=2,tensor=2,my-plan.json (default: the experiment's); data=, tensor= or "
          "pipeline= after a strategy's name begins the next strategy; any other key, and each key after an update "
          "policy, belongs to the one before it; see trireme help strategies")
      ->delimiter(',');
  verb->add_option("--json", o.json, "also write run.json's content to this file");
  add_profile_flag(*verb, o.prediction);
  verb->add_option(
          "--repeat", o.repeats,
          "run every row this many times, in turn with the other rows; times are medians over all steps (default: 1)")
      ->check(whole_number(1, kMostRepeats));
  verb->add_flag("--details", o.details, kDetailsHelp);
  verb->add_flag_callback(
      "--no-predict", [&o] { o.predict = false; }, "make no predictions: measure only the runs");
}

void add_simulate(CLI::App& app, SimulateOptions& o) {
  auto* verb =
      app.add_subcommand("simulate", "predict every strategy's step time without training, for this machine or others");
  o.experiment.add_common(*verb);
  o.experiment.add_devices(*verb, true, kMaxPlanDevices);
  o.experiment.add_device(*verb);
  add_cost_source(*verb, o.prediction);
  add_times_flag(*verb, o.prediction);
  verb->add_option("--strategies", o.experiment.strategies,
                   "as for compare (default: the experiment's); see trireme help strategies")
      ->delimiter(',');
  verb->add_option("--epochs", o.epochs,
                   "epochs to the target: a file of measure-epochs, noise=2000[,least=12], or a table of batches "
                   "and epochs, 256:4,2048:4.5,8192:16");
  verb->add_option("--out", o.experiment.out, "run folder to write, with a report and timelines (default: none)");
  verb->add_flag("--details", o.details, kDetailsHelp);
  verb->add_option("--json", o.json, "also write the predictions to this file, in the form of run.json");
}

void add_train(CLI::App& app, TrainOptions& o) {
  auto* verb = app.add_subcommand("train", "train under one plan");
  verb->footer([] { return known_names(); });
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  o.experiment.add_devices(*verb, false);
  verb->add_option("--plan", o.plan, kTrainedPlanHelp)->capture_default_str()->each([&o](const std::string&) {
    o.names_plan = true;
  });
  verb->add_option(
      "--resume", o.resume,
      "resume from a run's folder (its newest complete checkpoint) or from a checkpoint, under any plan and "
      "number of workers (docs/checkpoints.md)");
  verb->add_option("--start-from", o.start_from,
                   "begin with the weights and the optimizer's state of a run's folder or a checkpoint, whose batch, "
                   "sizes of samples and frozen parameters may differ; steps count from 0");
  add_cost_source(
      *verb, o.prediction,
      fmt::format("with --backend {}: train on the machines of this file (*.cluster.toml)", kVirtualBackend.name));
  verb->add_option("--backend", o.backend, backend_help())->check(CLI::IsMember(backend_choices()));
  verb->add_option("--json", o.json, "also write run.json's content to this file");
  verb->add_flag("--messages", o.messages, "write JSON lines instead of a progress bar");
  verb->add_option("--measure", o.measure)->group("")->check(CLI::IsMember({kMeasureMachines, kMeasureStep}));
  verb->add_option("--phases", o.phases)->group("");
  verb->add_option("--phases-plan", o.phases_plan)->group("");
  verb->add_flag("--details", o.details, kDetailsHelp);
}

void add_serve(CLI::App& app, ServeOptions& o) {
  auto* verb = app.add_subcommand(
      "serve", "train under an update policy with clients that are processes, here or on other machines");
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  verb->add_option(
          "--plan", o.plan,
          fmt::format("an update policy and its keys, \"{},rounds=20\" (docs/updates.md)", usual_federated_policy()))
      ->capture_default_str();
  verb->add_option("--clients", o.clients,
                   "number of clients; training begins when all have joined (default: that of --spawn)")
      ->check(whole_number(1, kMaxDevices));
  verb->add_option("--clients-at-least", o.at_least,
                   "begin when this many have joined (only policies whose clients may join later)")
      ->check(whole_number(1, kMaxDevices));
  verb->add_flag("--own-data", o.own_data, "clients train on their own data; the server's test data are evaluated");
  verb->add_option("--spawn", o.spawn, "number of clients to start on this machine")
      ->check(whole_number(1, kMaxDevices));
  verb->add_option(
      "--listen", o.listen,
      "address for clients; other machines need a token (default: tcp://127.0.0.1:5555, or any free port if "
      "all clients are spawned)");
  verb->add_option("--token-file", o.token_file,
                   "file whose first line is the run's token (default: the variable TRIREME_TOKEN)");
  verb->add_option("--resume", o.resume, "resume the server from this run folder or checkpoint; clients join again");
  verb->add_option("--json", o.json, "also write run.json's content to this file");
}

void add_join(CLI::App& app, ClientOptions& o) {
  auto* verb = app.add_subcommand("join", "train as a client of trireme serve, on the same experiment");
  verb->add_option("server", o.server, "address of the server: tcp://HOST:PORT")->required();
  o.experiment.add_common(*verb);
  verb->add_option("--steps", o.experiment.steps, "number of steps, as given to the server")->check(whole_number(1));
  verb->add_option("--client", o.client,
                   "number of this client from 0, which selects its samples (default: any free one)")
      ->check(whole_number(0, kMaxDevices - 1));
  verb->add_flag("--own-data", o.own_data,
                 "train on all samples of this file's [data] (the server needs --own-data too)");
  verb->add_option("--token-file", o.token_file,
                   "file whose first line is the run's token (default: the variable TRIREME_TOKEN)");
}

void add_verify(CLI::App& app, VerifyOptions& o) {
  auto* verb = app.add_subcommand("verify", "compare training under a plan with one device, within a tolerance");
  o.experiment.add_common(*verb);
  o.experiment.add_devices(*verb, false);
  verb->add_option("--plan", o.plan, kPlanHelp)->capture_default_str();
  verb->add_option("--precision", o.precision,
                   "fp64 to find errors of the plan; fp32 and bf16 add rounding, which grows (default: fp64)");
  verb->add_option("--steps", o.steps, "number of steps to compare")->capture_default_str()->check(whole_number(1));
}

void add_profile(CLI::App& app, ProfileOptions& o) {
  auto* verb = app.add_subcommand("profile", "measure the model's layers, links and updates on this machine");
  o.experiment.add_common(*verb);
  o.experiment.add_device(*verb);
  verb->add_option("--devices", o.experiment.devices, "largest tensor degree to measure of 1, 2, 4, ... (default: 4)")
      ->expected(1)
      ->check(whole_number(1, kMaxDevices));
  verb->add_option("--out", o.out,
                   "file to write, or to complete if it exists (default: the experiment's name with .profile.json)");
  verb->add_option("--budget", o.budget, "time for measurements; one that would exceed it is not begun")
      ->capture_default_str();
}

void add_measure_epochs(CLI::App& app, MeasureEpochsOptions& o) {
  auto* verb =
      app.add_subcommand("measure-epochs", "train to the target with several global batches (gradient accumulation)");
  o.experiment.add_common(*verb);
  verb->add_option("--batches", o.batches, "global batches, 32,64,128; those already in the file are skipped")
      ->required()
      ->delimiter(',')
      ->check(whole_number(1));
  verb->add_option("--rate", o.rate, "how the learning rate follows the batch: linear, sqrt or fixed")
      ->check(CLI::IsMember({"linear", "sqrt", "fixed"}))
      ->capture_default_str();
  verb->add_option("--devices", o.experiment.devices, "number of workers (default: 1)")
      ->expected(1)
      ->check(whole_number(1, kMaxDevices));
  verb->add_option(
          "--micro-batch", o.micro_batch,
          "largest number of samples that a worker computes at once (default: its share of the experiment's batch)")
      ->check(whole_number(1));
  verb->add_option("--out", o.out,
                   "file to write, or to complete if it exists (default: the experiment's name with .epochs.json)");
}

struct ReportOptions {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path out;
  bool details = false;
};

void add_report(CLI::App& app, ReportOptions& o) {
  auto* verb = app.add_subcommand(
      "report",
      "print a run folder's first table and verdict, and write its report.html again; with two, show what differs");
  verb->add_option("folder", o.folders, "run folder, or two: the report then shows both side by side")
      ->required()
      ->expected(1, 2);
  verb->add_option("--out", o.out,
                   "file to write (default: report.html in the run folder; of two runs, a new report-of-two.html)");
  verb->add_flag("--details", o.details, kDetailsHelp);
}

void add_study(CLI::App& app, StudyOptions& o) {
  auto* verb = app.add_subcommand(
      "study", "train all runs of a study, or those that are missing, and write one report beside published numbers");
  verb->add_option("study", o.study,
                   "a study file (*.study.toml), or the name of a study that comes with the program (default: list "
                   "those)");
  auto* quick = verb->add_flag("--quick", o.quick, "short runs: for a first look");
  verb->add_flag("--full", o.full, "runs at the paper's sizes, where the study has them")->excludes(quick);
  verb->add_flag("--dry-run", o.dry_run,
                 "print what would be trained and about how long that takes, and train nothing");
  verb->add_option("--data-dir", o.data_dir, "folder with the data sets");
  verb->add_option("--out", o.out,
                   "folder of the study, whose trained rows are kept (default: studies/<name>, with -quick or -full "
                   "behind it)");
}

void add_export(CLI::App& app, ExportOptions& o) {
  auto* verb = app.add_subcommand("export", "write a model with its weights for other programs");
  o.experiment.add_common(*verb);
  verb->remove_option(verb->get_option("experiment"));
  verb->add_option("source", o.experiment.experiment,
                   "a run's folder, a file of weights, or an experiment file (its model with model.weights, otherwise "
                   "untrained)")
      ->required();
  verb->add_option("--format", o.format,
                   "safetensors (weights), torchscript or onnx (the model too) (default: by the name of --output, "
                   "otherwise safetensors)")
      ->check(CLI::IsMember({"safetensors", "torchscript", "onnx"}));
  verb->add_option("-o,--output", o.out, "file to write (default: the model's name in the working folder)");
  verb->add_option_function<std::string>(
          "--inputs", [&o](const std::string& inputs) { o.raw = inputs == "raw"; },
          "what torchscript and onnx take: normalised values as in training (default), or raw ones, bytes of images or "
          "a table's columns (docs/export.md)")
      ->check(CLI::IsMember({"normalised", "raw"}));
}

/// The verbs of `trireme data`.
struct DataVerbs {
  std::string set;
  std::optional<std::filesystem::path> data_dir;
  CLI::App* get = nullptr;

  explicit DataVerbs(CLI::App& app) {
    auto* data = app.add_subcommand("data", "list and download data sets");
    data->require_subcommand(1);
    get = data->add_subcommand("get", "download a data set");
    get->add_option("name", set, "name of a set from trireme data list")->required();
    auto* list = data->add_subcommand("list", "list the known data sets and where they were found");
    for (auto* verb : {get, list}) verb->add_option("--data-dir", data_dir, "folder to search and to download to");
  }
  int run() { return get->parsed() ? data_get(set, data_dir, std::cout) : data_list(std::cout, data_dir); }
};

/// The verbs of `trireme checkpoints`.
struct CheckpointVerbs {
  std::filesystem::path folder;
  CLI::App* list = nullptr;

  explicit CheckpointVerbs(CLI::App& app) {
    auto* checkpoints = app.add_subcommand("checkpoints", "list and verify a run's checkpoints");
    checkpoints->require_subcommand(1);
    list = checkpoints->add_subcommand("list", "print the step, losses, size and state of each checkpoint");
    list->add_option("folder", folder, "a run's folder, or a folder of checkpoints")->required();
    checkpoints
        ->add_subcommand("verify", "read every byte and compare checksums; the exit code is 1 if anything is damaged")
        ->add_option("folder", folder, "a run's folder, a folder of checkpoints, or one of them")
        ->required();
  }
  int run() { return list->parsed() ? list_checkpoints(folder, std::cout) : verify_checkpoints(folder, std::cout); }
};

int end_training(int code) {
  if (!interrupted_by_user()) return code;
  // Workers may still be in the middle of a layer. Everything is written, and nothing waits for them.
  std::cout.flush();
  std::_Exit(code);
}

/// Adds one verb with its own options.
template <typename Options, typename Run>
ProgramVerb verb(CLI::App& app, std::string name, void (&add)(CLI::App&, Options&), Run run, bool alone = false) {
  auto options = std::make_shared<Options>();
  add(app, *options);
  return {std::move(name), [options, run] { return run(*options); }, alone};
}

/// Adds the verbs of a group.
template <typename Group>
ProgramVerb group(CLI::App& app, std::string name) {
  return {std::move(name), [verbs = std::make_shared<Group>(app)] { return verbs->run(); }};
}

ProgramVerb launch_verb(CLI::App& app, int argc, char** argv) {
  auto options = std::make_shared<LaunchOptions>();
  options->words = launched_words(argc, argv);
  add_launch(app, *options, add_train, add_compare);
  return {"launch", [options] { return run_launch(*options); }};
}

ProgramVerb help_verb(CLI::App& app) {
  auto verbs = std::make_shared<std::vector<std::string>>();
  add_help(app, *verbs);
  return {"help", [verbs, &app] { return run_help(app, *verbs, std::cout); }};
}

ProgramVerb doctor_verb(CLI::App& app) {
  app.add_subcommand("doctor", "list what this machine has and what will be slow");
  return {"doctor", [] { return run_doctor(std::cout, bf16_speed(cache_folder())); }};
}

}  // namespace

std::vector<ProgramVerb> add_verbs(CLI::App& app, int argc, char** argv) {
  constexpr bool kAlone = true;
  std::vector<ProgramVerb> verbs;
  verbs.push_back(verb(app, "compare", add_compare, run_compare, kAlone));
  verbs.push_back(verb(app, "train", add_train, [](const TrainOptions& o) { return end_training(run_train(o)); }));
  verbs.push_back(launch_verb(app, argc, argv));
  verbs.push_back(verb(
      app, "serve", add_serve, [](const ServeOptions& o) { return end_training(run_serve(o)); }, kAlone));
  verbs.push_back(verb(app, "join", add_join, [](const ClientOptions& o) { return end_training(run_join(o)); }));
  verbs.push_back(verb(app, "simulate", add_simulate, run_simulate));
  verbs.push_back(verb(app, "verify", add_verify, run_verify, kAlone));
  verbs.push_back(verb(app, "profile", add_profile, run_profile, kAlone));
  verbs.push_back(verb(
      app, "measure-epochs", add_measure_epochs,
      [](const MeasureEpochsOptions& o) { return end_training(run_measure_epochs(o)); }, kAlone));
  verbs.push_back(verb(app, "study", add_study, run_study, kAlone));
  verbs.push_back(verb(app, "calibrate", add_calibrate, run_calibrate));
  verbs.push_back(verb(app, "export", add_export, run_export));
  verbs.push_back(group<PlanVerbs>(app, "plan"));
  verbs.push_back(
      verb(app, "report", add_report, [](const ReportOptions& o) { return run_report(o.folders, o.out, o.details); }));
  verbs.push_back(group<CheckpointVerbs>(app, "checkpoints"));
  verbs.push_back(group<DataVerbs>(app, "data"));
  verbs.push_back(doctor_verb(app));
  verbs.push_back(help_verb(app));
  return verbs;
}

}  // namespace trireme
