#include "cli/plan_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/options.h"
#include "experiment/make_plan.h"
#include "experiment/replica_spec.h"
#include "forecast/agreement_plan.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "program/compile.h"
#include "report/progress.h"
#include "train/trainer.h"
#include "trireme/error.h"
#include "update/registry.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool looks_like_file(const std::string& name) {
  return name.find('/') != name.npos || fs::path(name).extension() == ".json";
}

/// Errors (user): the name is that of an experiment's file.
void refuse_toml_as_plan(const std::string& name, const std::string& where) {
  if (fs::path(name).extension() != ".toml" || !is_plan_file(name)) return;
  fail_user(
      {where, name, "it is a TOML file, as experiments are; plan files are JSON",
       fmt::format("name a strategy such as data: trireme plan show data {0} shows its plan, and --json FILE writes it",
                   name)});
}

}  // namespace

void check_plan_name(const std::string& name, const std::string& where) {
  refuse_toml_as_plan(name, where);
  if (is_plan_file(name) || is_update_policy(name)) return;
  const std::string first = name.substr(0, name.find(','));
  auto strategies = known_strategies();
  for (std::string& planned : planned_strategies()) strategies.push_back(std::move(planned));
  auto known = strategies;
  for (std::string& policy : update_policy_names()) known.push_back(std::move(policy));
  const bool is_known = std::find(known.begin(), known.end(), first) != known.end();
  std::error_code ignored;
  if (!is_known && fs::is_directory(name, ignored))  // a folder named "data" must not hide the plan "data"
    fail_user({where, name, "is a folder",
               fmt::format("name the plan file in it, for example {}", (fs::path(name) / "plan.json").string())});
  if (looks_like_file(name))
    fail_user({where, name, "there is no such file",
               "check the path; trireme plan show data EXPERIMENT --json FILE writes a plan"});
  if (first != name && is_plan_file(first))
    fail_user({where, name, "a plan file is complete: no keys may follow it", "edit the file"});
  if (const auto forms = expand_strategy(first); forms.size() > 1)
    fail_user({where, first, "denotes two plans", "choose " + join(forms, " or ")});
  if (first.find('=') != first.npos || is_known) {
    parse_strategy(name, where);
    return;
  }
  const std::string near = closest_match(first, known);
  fail_user({where, "\"" + first + "\"", "is neither a strategy nor a plan file",
             near.empty() ? fmt::format("write degrees such as data=2,tensor=2, an update policy (trireme help "
                                        "policies), or one of {}",
                                        join(strategies))
                          : fmt::format("did you mean \"{}\"?", near)});
}

void refuse_policy(const std::string& name, const std::string& where) {
  if (is_update_policy(name) && !is_plan_file(name))
    fail_user({where, name, "is an update policy, which this verb does not take",
               "name a plan; train, compare, simulate and serve take update policies"});
}

std::optional<int> devices_of_degrees(const std::string& name) {
  const std::optional<int> devices = parse_strategy(name, "--plan").devices();
  if (devices && *devices > kMaxPlanDevices)
    fail_user(
        {"--plan", name, fmt::format("at most {} devices are supported", kMaxPlanDevices), "use smaller degrees"});
  return devices;
}

int devices_of(const std::string& name, const Experiment& experiment) {
  const int usual = experiment.devices.front();
  return is_update_policy(name) ? usual : devices_of_degrees(name).value_or(usual);
}

void check_runs_here(int devices, const std::string& where) {
  if (devices > kMaxDevices)
    fail_user({where, counted(devices, "device"), fmt::format("at most {} can work on this machine", kMaxDevices),
               "use fewer; trireme plan best and plan show accept more"});
}

void check_compiles(const Plan& plan, const RunSpec& experiment, const Model& model, const std::string& where,
                    bool executed) {
  try {
    CompileOptions options = options_of(experiment, plan, true);
    options.checked = executed;
    compile(model, plan, options);
  } catch (const Error& error) {  // the error of this plan: an unknown schedule, a deadlock
    Diagnosis diagnosis = error.diagnosis();
    if (diagnosis.where.starts_with("plan")) diagnosis.where = where;
    throw Error(error.blame(), std::move(diagnosis));
  }
}

Plan load_plan_file(const std::string& file, const RunSpec& experiment, const Model& model) {
  Plan plan = read_plan(file, model);
  validate(plan, model, std::max<int64_t>(1, whole_experiment(experiment, plan).batch / plan.replicas), file);
  // `trireme plan show` wrote "data" into it; an edited file is no longer that plan.
  plan.name = fs::path(file).stem().string();
  check_compiles(plan, experiment, model, file);
  return plan;
}

Plan choose_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                 const Model& model, bool to_run) {
  check_plan_name(name, "--plan");
  if (is_plan_file(name)) {
    Plan plan = load_plan_file(name, experiment, model);
    if (!devices.empty() && devices.front() != plan.workers())
      fail_user({"--devices", std::to_string(devices.front()),
                 fmt::format("the plan in {} is for {}", name, plan.workers()), "leave --devices out"});
    if (to_run) check_runs_here(plan.workers(), name);
    return plan;
  }
  const int count = !devices.empty() ? devices.front() : devices_of(name, experiment);
  if (to_run) check_runs_here(count, fmt::format("--plan {}", name));
  Plan plan = is_update_policy(name) ? plan_with_agreement(name, experiment, model, count)
                                     : make_plan(name, experiment, model, count);
  if (const std::string why = why_not_measured(plan, experiment, model); !why.empty())
    std::cerr << fmt::format("note: stages are balanced by their layers' FLOPs: {}\n", why);
  check_compiles(plan, experiment, model, fmt::format("plan {}", name));
  return plan;
}

Plan choose_or_find_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                         const Model& model, const TaskData& data, const CostSourceOptions& costs,
                         const PlanTrials* trials) {
  const bool to_run = trials != nullptr;
  const bool has_costs = !costs.cluster.empty() || !costs.profile.empty();
  if (!is_planned(name) && (to_run || !has_costs || is_plan_file(name)))
    return choose_plan(name, devices, experiment, model, to_run);
  const int usual = is_planned(name) ? experiment.devices.front() : is_single(name) ? 1 : devices_of(name, experiment);
  const int count = devices.empty() || is_single(name) ? usual : devices.front();
  if (to_run) check_runs_here(count, fmt::format("--plan {}", name));
  Predictions predictions(experiment, model, data, costs);
  if (trials && experiment.process_machines) {
    // Only whole steps show the work of the cores of processes for communication.
    const std::string line = predictions.try_steps({count}, trials->measure_step);
    if (trials->progress && !line.empty()) trials->progress->say("predictions: " + line);
  }
  if (trials) predictions.use_final_trials(trials->measure_step);
  Plan plan = predictions.plan(name, count);
  predictions.keep();
  if (const std::string note = predictions.take_note(); !note.empty()) std::cerr << "note: " << note << "\n";
  if (trials && trials->progress && predictions.final_trials())
    if (const std::string line = predictions.final_trials()->take_line(model); !line.empty())
      trials->progress->say(line);
  check_compiles(plan, experiment, model, fmt::format("plan {}", name));
  return plan;
}

std::string plan_text(const Plan& plan, const Model& model) {
  const nlohmann::json json = to_json(plan, model);
  // The library's JSON is sorted by name; these keys are in reading order. Default values are omitted.
  const auto line = [](const nlohmann::json& object, std::initializer_list<const char*> keys) {
    std::vector<std::string> pairs;
    for (const char* key : keys)
      if (object.contains(key)) pairs.push_back(fmt::format("\"{}\": {}", key, object.at(key).dump()));
    return join(pairs);
  };
  std::string text = "{\n";
  for (const auto* key :
       {"trireme_plan", "name", "model", "model_fingerprint", "replicas", "agreement", "devices", "cluster_devices",
        "speeds", "schedule", "vertical_sync", "micro_batches", "recompute_last", "recompute_communication",
        "scatter_messages", "optimizer_sharding", "sharding_group", "compression"})
    if (json.contains(key)) text += fmt::format("  {},\n", line(json, {key}));
  const auto list = [&](const char* name, std::initializer_list<const char*> keys) {
    std::vector<std::string> lines;
    for (const auto& entry : json.at(name)) lines.push_back("    {" + line(entry, keys) + "}");
    return fmt::format("  \"{}\": [\n{}\n  ]", name, join(lines, ",\n"));
  };
  return text + list("stages", {"workers"}) + ",\n" +
         list("layers", {"layer", "stage", "data", "tensor", "split", "recompute"}) + "\n}\n";
}

}  // namespace trireme
