#include <CLI/CLI.hpp>

#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/data_command.h"
#include "cli/doctor.h"

namespace {

constexpr int kRunFailed = 1, kUserError = 2;

void add_compare(CLI::App& app, trireme::CompareOptions& o) {
  auto* verb = app.add_subcommand("compare", "train under every strategy and compare them");
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  verb->add_option("--strategies", o.experiment.strategies, "strategies or plan files, for example data,tensor,my-plan.json")->delimiter(',');
  verb->add_option("--json", o.json, "also write run.json's content to this file");
}

void add_train(CLI::App& app, trireme::TrainOptions& o) {
  auto* verb = app.add_subcommand("train", "train under one plan");
  o.experiment.add_common(*verb);
  o.experiment.add_run(*verb);
  verb->add_option("--plan", o.plan, "a named plan, degrees such as data=2,tensor=2, or a plan file")->capture_default_str();
  verb->add_option("--json", o.json, "also write run.json's content to this file");
  verb->add_flag("--messages", o.messages, "write JSON lines instead of a progress bar");
}

void add_verify(CLI::App& app, trireme::VerifyOptions& o) {
  auto* verb = app.add_subcommand("verify", "check that a plan trains exactly as one device does");
  o.experiment.add_common(*verb);
  verb->add_option("--devices", o.experiment.devices, "number of workers")->delimiter(',')->check(CLI::PositiveNumber);
  verb->add_option("--plan", o.plan, "a named plan, degrees, or a plan file")->capture_default_str();
  verb->add_option("--steps", o.steps, "steps to compare")->capture_default_str()->check(CLI::PositiveNumber);
}

void add_plan(CLI::App& app, trireme::PlanOptions& o) {
  auto* verb = app.add_subcommand("plan", "print a plan as JSON, to be edited and given back with --plan FILE");
  o.experiment.add_common(*verb);
  verb->add_option("--devices", o.experiment.devices, "number of workers")->delimiter(',')->check(CLI::PositiveNumber);
  verb->add_option("--plan", o.plan, "a named plan or degrees")->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Trireme trains a neural network on many devices and finds out which way of splitting the work is best."};
  app.require_subcommand(1);
  app.name("trireme");
  trireme::CompareOptions compare;
  trireme::TrainOptions train;
  trireme::VerifyOptions verify;
  trireme::PlanOptions plan;
  add_compare(app, compare);
  add_train(app, train);
  add_verify(app, verify);
  add_plan(app, plan);
  app.add_subcommand("doctor", "say what was found on this machine and what will be slow");
  auto* data = app.add_subcommand("data", "data sets: where they are, and how to get them");
  data->require_subcommand(1);
  std::string set;
  std::optional<std::filesystem::path> data_dir;
  auto* get = data->add_subcommand("get", "download a data set");
  get->add_option("name", set, "mnist or cifar10")->required();
  auto* list = data->add_subcommand("list", "known data sets and where they were found");
  for (auto* verb : {get, list}) verb->add_option("--data-dir", data_dir, "folder to look in and to download to");

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    std::cerr << "trireme: " << trireme::first_line(error) << "; see trireme --help\n";
    return kUserError;
  }
  try {
    trireme::set_up_logging();
    if (app.got_subcommand("compare")) return run_compare(compare);
    if (app.got_subcommand("train")) return run_train(train);
    if (app.got_subcommand("verify")) return run_verify(verify);
    if (app.got_subcommand("plan")) return run_plan(plan);
    if (app.got_subcommand("doctor")) return trireme::run_doctor(std::cout);
    return get->parsed() ? trireme::data_get(set, data_dir, std::cout) : trireme::data_list(std::cout, data_dir);
  } catch (const trireme::Error& error) {
    std::cerr << "trireme: " << error.what() << "\n";
    return error.blame() == trireme::Blame::user ? kUserError : kRunFailed;
  } catch (const std::exception& error) {
    std::cerr << "trireme: " << trireme::first_line(error) << "\n";
    return kRunFailed;
  }
}
