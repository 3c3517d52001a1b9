#include "trireme/program.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "base/log.h"
#include "base/text.h"
#include "cli/bf16_speed.h"
#include "cli/commands.h"
#include "cli/cost_source_flags.h"
#include "cli/data_command.h"
#include "cli/doctor.h"
#include "cli/exit_codes.h"
#include "cli/foreign_flags.h"
#include "cli/groups.h"
#include "cli/help_command.h"
#include "cli/known_names.h"
#include "cli/launch_command.h"
#include "cli/option_values.h"
#include "cli/plan_command.h"
#include "cli/printed_pages.h"
#include "cli/train_process.h"
#include "comm/backend_list.h"
#include "comm/rendezvous/process_place.h"
#include "data/search_folders.h"
#include "trireme/error.h"
#include "update/registry.h"

namespace {

using trireme::kRunFailed;
using trireme::kUserError;

std::string version_text() {
  const trireme::Version version = trireme::version();
  return fmt::format("trireme {}{}\nlibtorch {}\nbackends {}", version.number,
                     version.commit.empty() ? "" : fmt::format(" (commit {})", version.commit), version.libtorch,
                     trireme::join(version.backends));
}

constexpr int kMostRepeats = 1000;
constexpr const char* kDetailsHelp = "print all tables; without it: the table of what decides, and the verdict";
constexpr const char* kPlanHelp =
    "a plan file, a strategy, or degrees, \"data=2,tensor=2\" (see trireme help strategies)";
constexpr const char* kTrainedPlanHelp =
    "a plan file, a strategy, or degrees, \"data=2,tensor=2\" (see trireme help strategies); or an update policy and "
    "its keys, \"local-sgd,every=16 steps\" (see trireme help policies)";

std::string backend_help() {
  std::vector<std::string> processes, others;
  for (const trireme::BackendKind* kind : trireme::backend_kinds())
    if (kind->can_be_chosen()) (kind->processes ? processes : others).push_back(kind->name + std::string(kind->help));
  return fmt::format("communication backend of workers that are processes: {}; {}", trireme::join(processes, ", or "),
                     trireme::join(others, "; "));
}

void add_compare(CLI::App& app, trireme::CompareOptions& o) {
  auto* verb = app.add_subcommand("compare", "train under every strategy and compare them");
  verb->footer([] { return trireme::known_names(); });
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  o.experiment.add_devices(*verb, true);
  verb->add_option(
          "--strategies", o.experiment.strategies,
          "strategies, degrees, update policies or plan files, separated by commas: "
          "data,1f1b,recompute=all,data=2,tensor=2,my-plan.json (default: the experiment's); data=, tensor= or "
          "pipeline= after a name begins the next strategy, any other key belongs to the one before it; see "
          "trireme help strategies")
      ->delimiter(',');
  verb->add_option("--json", o.json, "also write run.json's content to this file");
  trireme::add_profile_flag(*verb, o.prediction);
  verb->add_option(
          "--repeat", o.repeats,
          "run every row this many times, one row after the other and then again, and take the median over all "
          "steps (default: once)")
      ->check(trireme::whole_number(1, kMostRepeats));
  verb->add_flag("--details", o.details, kDetailsHelp);
  verb->add_flag_callback(
      "--no-predict", [&o] { o.predict = false; }, "make no predictions: measure only the runs");
}

void add_simulate(CLI::App& app, trireme::SimulateOptions& o) {
  auto* verb =
      app.add_subcommand("simulate", "predict every strategy's step time without training, for this machine or others");
  o.experiment.add_common(*verb);
  o.experiment.add_devices(*verb, true, trireme::kMaxPlanDevices);
  trireme::add_cost_source(*verb, o.prediction);
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

void add_train(CLI::App& app, trireme::TrainOptions& o) {
  auto* verb = app.add_subcommand("train", "train under one plan");
  verb->footer([] { return trireme::known_names(); });
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  o.experiment.add_devices(*verb, false);
  verb->add_option("--plan", o.plan, kTrainedPlanHelp)->capture_default_str();
  verb->add_option(
      "--resume", o.resume,
      "resume from a run's folder (its newest complete checkpoint) or from a checkpoint, under any plan and "
      "number of workers (docs/checkpoints.md)");
  trireme::add_cost_source(*verb, o.prediction,
                           fmt::format("with --backend {}: train on the machines of this file (*.cluster.toml)",
                                       trireme::kVirtualBackend.name));
  verb->add_option("--backend", o.backend, backend_help())->check(CLI::IsMember(trireme::backend_choices()));
  verb->add_option("--json", o.json, "also write run.json's content to this file");
  verb->add_flag("--messages", o.messages, "write JSON lines instead of a progress bar");
}

void add_serve(CLI::App& app, trireme::ServeOptions& o) {
  auto* verb = app.add_subcommand(
      "serve", "train under an update policy with clients that are processes, here or on other machines");
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  verb->add_option("--plan", o.plan,
                   fmt::format("an update policy and its keys, \"{},rounds=20\" (docs/updates.md)",
                               trireme::usual_federated_policy()))
      ->capture_default_str();
  verb->add_option("--clients", o.clients,
                   "number of clients; training begins when all have joined (default: that of --spawn)")
      ->check(trireme::whole_number(1, trireme::kMaxDevices));
  verb->add_option("--clients-at-least", o.at_least,
                   "begin when this many have joined (only policies whose clients may join later)")
      ->check(trireme::whole_number(1, trireme::kMaxDevices));
  verb->add_flag("--own-data", o.own_data, "clients train on their own data; the server's test data are evaluated");
  verb->add_option("--spawn", o.spawn, "number of clients to start on this machine")
      ->check(trireme::whole_number(1, trireme::kMaxDevices));
  verb->add_option(
      "--listen", o.listen,
      "address for clients; other machines need a token (default: tcp://127.0.0.1:5555, or any free port if "
      "all clients are spawned)");
  verb->add_option("--token-file", o.token_file,
                   "file whose first line is the run's token (default: the variable TRIREME_TOKEN)");
  verb->add_option("--resume", o.resume, "resume the server from this run folder or checkpoint; clients join again");
  verb->add_option("--json", o.json, "also write run.json's content to this file");
}

void add_join(CLI::App& app, trireme::ClientOptions& o) {
  auto* verb = app.add_subcommand("join", "train as a client of trireme serve, on the same experiment");
  verb->add_option("server", o.server, "address of the server: tcp://HOST:PORT")->required();
  o.experiment.add_common(*verb);
  verb->add_option("--steps", o.experiment.steps, "number of steps, as given to the server")
      ->check(trireme::whole_number(1));
  verb->add_option("--client", o.client,
                   "number of this client from 0, which selects its samples (default: any free one)")
      ->check(trireme::whole_number(0, trireme::kMaxDevices - 1));
  verb->add_flag("--own-data", o.own_data,
                 "train on all samples of this file's [data] (the server needs --own-data too)");
  verb->add_option("--token-file", o.token_file,
                   "file whose first line is the run's token (default: the variable TRIREME_TOKEN)");
}

void add_verify(CLI::App& app, trireme::VerifyOptions& o) {
  auto* verb = app.add_subcommand("verify", "compare training under a plan with one device, within a tolerance");
  o.experiment.add_common(*verb);
  o.experiment.add_devices(*verb, false);
  verb->add_option("--plan", o.plan, kPlanHelp)->capture_default_str();
  verb->add_option("--precision", o.precision,
                   "fp64 to find errors of the plan; fp32 and bf16 add rounding, which grows (default: fp64)");
  verb->add_option("--steps", o.steps, "number of steps to compare")
      ->capture_default_str()
      ->check(trireme::whole_number(1));
}

void add_profile(CLI::App& app, trireme::ProfileOptions& o) {
  auto* verb = app.add_subcommand("profile", "measure the model's layers, links and updates on this machine");
  o.experiment.add_common(*verb);
  verb->add_option("--devices", o.experiment.devices, "largest tensor degree to measure of 1, 2, 4, ... (default: 4)")
      ->expected(1)
      ->check(trireme::whole_number(1, trireme::kMaxDevices));
  verb->add_option("--out", o.out,
                   "file to write, or to complete if it exists (default: the experiment's name with .profile.json)");
  verb->add_option("--budget", o.budget, "time for measurements; one that would exceed it is not begun")
      ->capture_default_str();
}

void add_measure_epochs(CLI::App& app, trireme::MeasureEpochsOptions& o) {
  auto* verb =
      app.add_subcommand("measure-epochs", "train to the target with several global batches (gradient accumulation)");
  o.experiment.add_common(*verb);
  verb->add_option("--batches", o.batches, "global batches, 32,64,128; those already in the file are skipped")
      ->required()
      ->delimiter(',')
      ->check(trireme::whole_number(1));
  verb->add_option("--rate", o.rate, "how the learning rate follows the batch: linear, sqrt or fixed")
      ->check(CLI::IsMember({"linear", "sqrt", "fixed"}))
      ->capture_default_str();
  verb->add_option("--devices", o.experiment.devices, "number of workers (default: 1)")
      ->expected(1)
      ->check(trireme::whole_number(1, trireme::kMaxDevices));
  verb->add_option("--micro-batch", o.micro_batch,
                   "most samples that a worker computes at once (default: its share of the experiment's batch)")
      ->check(trireme::whole_number(1));
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
      "report", "print a run folder's first table and verdict, and write its report.html again; of two: what differs");
  verb->add_option("folder", o.folders, "run folder, or two: the report then shows both side by side")
      ->required()
      ->expected(1, 2);
  verb->add_option("--out", o.out,
                   "file to write (default: report.html in the run folder; of two runs, report-of-two.html)");
  verb->add_flag("--details", o.details, kDetailsHelp);
}

void add_export(CLI::App& app, trireme::ExportOptions& o) {
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
  int run() {
    return get->parsed() ? trireme::data_get(set, data_dir, std::cout) : trireme::data_list(std::cout, data_dir);
  }
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
  int run() {
    return list->parsed() ? trireme::list_checkpoints(folder, std::cout)
                          : trireme::verify_checkpoints(folder, std::cout);
  }
};

/// Returns the deepest verb on the command line; messages refer to its --help.
const CLI::App* deepest(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

std::string full_name(const CLI::App* app) {
  return app->get_parent() == nullptr ? app->get_name() : full_name(app->get_parent()) + " " + app->get_name();
}

/// Suggests the flag or verb nearest to an unrecognised word.
std::string suggestion(const CLI::App* app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app->get_options()) known.push_back(option->get_name());
  for (const CLI::App* verb : app->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(verb->get_name());
  const std::string near = trireme::closest_match(word.substr(0, word.find('=')), known);
  return near.empty() ? "" : "did you mean " + near + "? ";
}

/// Returns an assignment without its own --set, such as the second of `--set a=1 b=2`; the parser may have taken it for
/// the experiment. "" if there is none.
std::string stray_assignment(const CLI::App* verb, const std::vector<std::string>& surplus) {
  if (verb->get_option_no_throw("--set") == nullptr) return "";
  std::vector<std::string> words;
  if (const CLI::Option* experiment = verb->get_option_no_throw("experiment")) words = experiment->results();
  words.insert(words.end(), surplus.begin(), surplus.end());
  for (const std::string& word : words)
    if (!word.starts_with('-') && word.find('=') != word.npos) return word;
  return "";
}

/// Suggests where on the command line an unrecognised word belongs, as in `trireme launch train EXPERIMENT -n 2`; "" if
/// nowhere.
std::string misplaced(const CLI::App& app, const CLI::App* verb, const std::string& word) {
  const CLI::App* above = verb->get_parent();
  const bool is_flag = word.starts_with('-');
  if (is_flag && above && above->get_parent() && above->get_option_no_throw(word.substr(0, word.find('='))))
    return fmt::format("{} is for {}: write it before {}; ", word, full_name(above), verb->get_name());
  const auto is_it = [&](const CLI::App* one) { return one->get_name() == word; };
  if (!is_flag && verb->get_name() == "launch" && !app.get_subcommands(is_it).empty())
    return "launch starts train only; ";
  return "";
}

/// Returns the verb, among a verb and those above it, that has the flag with which an error's text begins.
const CLI::App* owner_of(const CLI::App* verb, const std::string& text) {
  const std::string flag = text.substr(0, text.find(':'));
  for (const CLI::App* app = verb; app && flag.starts_with('-'); app = app->get_parent())
    if (app->get_option_no_throw(flag)) return app;
  return verb;
}

/// `given`: the words of the command line.
int report_usage_error(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& given) {
  const auto words = app.remaining(true);
  const CLI::App* verb = words.empty() ? owner_of(deepest(&app), trireme::first_line(error)) : deepest(&app);
  std::string what = trireme::first_line(error), hint;
  if (const std::string assignment = words.empty() ? "" : stray_assignment(verb, words); !assignment.empty()) {
    what = assignment + ": unknown argument";
    hint = "each key=value needs a --set of its own; ";
  } else if (!words.empty()) {
    const bool flag = words.front().starts_with('-');
    what = fmt::format("{}: unknown {}", words.front(),
                       flag                                                                  ? "flag"
                       : verb->get_subcommands([](const CLI::App*) { return true; }).empty() ? "argument"
                                                                                             : "verb");
    hint = misplaced(app, verb, words.front());
    if (hint.empty()) hint = trireme::own_word_for(*verb, words.front(), given);
    if (hint.empty()) hint = suggestion(verb, words.front());
  }
  std::cerr << "trireme: " << what << "; " << hint << "see " << full_name(verb) << " --help\n";
  return kUserError;
}

/// Returns an argument without a value: `--epochs ""` and `--epochs=` would be ignored like a missing flag.
std::string empty_argument(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.empty()) return i > 1 && argv[i - 1][0] == '-' ? argv[i - 1] : fmt::format("argument {}", i);
    if (word.starts_with("--") && word.find('=') == word.size() - 1) return word.substr(0, word.size() - 1);
  }
  return "";
}

/// `trireme --parse-only train ...` parses the command and runs nothing.
constexpr const char* kParseOnly = "--parse-only";

int print_pages_or_error(const CLI::App& app, const std::vector<std::string>& words) {
  try {
    trireme::print_pages(app, words, std::cout);
    return 0;
  } catch (const trireme::Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return kUserError;
  }
}

int end_training(int code) {
  if (!trireme::interrupted_by_user()) return code;
  // Workers may still be in the middle of a layer. Everything is written, and nothing waits for them.
  std::cout.flush();
  std::_Exit(code);
}

}  // namespace

int trireme::run_program(int argc, char** argv) {
  CLI::App app{
      "Trireme trains a neural network on many devices and finds out which way of splitting the work is best."};
  app.require_subcommand(1);
  app.name("trireme");
  trireme::use_help_pages(app);
  app.set_version_flag("--version", version_text, "print version, commit, libtorch and backends");
  app.set_help_flag("-h,--help", "print this page");
  trireme::CompareOptions compare;
  trireme::TrainOptions train;
  trireme::ServeOptions serve;
  trireme::ClientOptions join;
  trireme::SimulateOptions simulate;
  trireme::VerifyOptions verify;
  trireme::ExportOptions exported;
  trireme::ProfileOptions profile;
  trireme::MeasureEpochsOptions epochs;
  add_compare(app, compare);
  add_train(app, train);
  trireme::LaunchOptions launch;
  launch.words = trireme::launched_words(argc, argv);
  trireme::add_launch(app, launch, add_train);
  add_serve(app, serve);
  add_join(app, join);
  add_simulate(app, simulate);
  add_verify(app, verify);
  add_profile(app, profile);
  add_measure_epochs(app, epochs);
  add_export(app, exported);
  trireme::PlanVerbs plan(app);
  ReportOptions report;
  add_report(app, report);
  CheckpointVerbs checkpoints(app);
  DataVerbs data(app);
  app.add_subcommand("doctor", "list what this machine has and what will be slow");
  std::vector<std::string> help;
  trireme::add_help(app, help);
  trireme::name_values(app);
  trireme::group_options_and_verbs(app);

  if (const std::string empty = empty_argument(argc, argv); !empty.empty()) {
    if (trireme::reports_for_command())
      std::cerr << "trireme: " << empty << ": no value is given; give one, or leave the flag out\n";
    return kUserError;
  }
  const std::vector<std::string> given{argv + 1, argv + argc};
  std::vector<std::string> words = given;
  if (words.empty()) return trireme::run_help(app, {}, std::cout);
  if (trireme::requests_pages(words)) return print_pages_or_error(app, words);
  const bool parses_only = words[0] == kParseOnly;
  if (parses_only) words.erase(words.begin());
  try {
    words = trireme::with_plan_verb(std::move(words));
    std::reverse(words.begin(), words.end());  // the parser expects the reverse order
    app.parse(std::move(words));
    if (parses_only) return 0;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return trireme::reports_for_command() ? report_usage_error(app, error, given) : kUserError;
  }
  // If the reader of the output ends (head, a closed terminal), the training continues.
  std::signal(SIGPIPE, SIG_IGN);
  bool is_alike = true;  // true while an error would appear in every process that a launcher started with this command
  try {
    trireme::set_up_logging();
    for (const char* verb : {"compare", "serve", "measure-epochs", "verify", "profile"})
      if (app.got_subcommand(verb)) trireme::check_started_once(verb);
    is_alike = false;
    if (app.got_subcommand("compare")) return run_compare(compare);
    if (app.got_subcommand("train")) return end_training(run_train(train));
    if (app.got_subcommand("launch")) return trireme::run_launch(launch);
    if (app.got_subcommand("serve")) return end_training(run_serve(serve));
    if (app.got_subcommand("join")) return end_training(run_join(join));
    if (app.got_subcommand("measure-epochs")) return end_training(run_measure_epochs(epochs));
    if (app.got_subcommand("simulate")) return run_simulate(simulate);
    if (app.got_subcommand("verify")) return run_verify(verify);
    if (app.got_subcommand("profile")) return run_profile(profile);
    if (app.got_subcommand("plan")) return plan.run();
    if (app.got_subcommand("export")) return run_export(exported);
    if (app.got_subcommand("report")) return trireme::run_report(report.folders, report.out, report.details);
    if (app.got_subcommand("checkpoints")) return checkpoints.run();
    if (app.got_subcommand("help")) return trireme::run_help(app, help, std::cout);
    if (app.got_subcommand("doctor"))
      return trireme::run_doctor(std::cout, trireme::bf16_speed(trireme::cache_folder()));
    return data.run();
  } catch (const trireme::Error& error) {
    if (!is_alike || trireme::reports_for_command()) std::cerr << "trireme: " << error.what() << "\n";
    return error.blame() == trireme::Blame::user ? kUserError : kRunFailed;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << trireme::first_line(error) << "\n";
    return kRunFailed;
  }
}
