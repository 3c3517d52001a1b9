// `trireme plan show`: a plan in words or as JSON, a drawing of its schedule, and the instructions of a worker.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/json_file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/cost_source_flags.h"
#include "cli/described_devices.h"
#include "cli/plan_choice.h"
#include "cli/plan_command.h"
#include "cli/predict_subject.h"
#include "cli/show_layers.h"
#include "cli/text_table.h"
#include "cli/usual_models.h"
#include "experiment/batches.h"
#include "experiment/make_plan.h"
#include "plan/strategy.h"
#include "program/compile.h"
#include "program/draw.h"
#include "report/progress.h"
#include "report/table.h"
#include "train/trainer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns the model for which a plan file was made, from the file alone.
Model model_of_file(const std::string& file) {
  const nlohmann::json json = read_json_file(file);
  const auto text = [&](const char* key) {
    return json.is_object() && json.contains(key) && json.at(key).is_string() ? json.at(key).get<std::string>() : "";
  };
  const auto names = model_names();
  const std::string name = text("model");
  if (std::find(names.begin(), names.end(), name) != names.end())
    for (Model& model : usual_models(name))
      if (model.fingerprint() == text("model_fingerprint")) return std::move(model);
  fail_user({file, fmt::format("a plan for model \"{}\"", name), "its options are not in the file",
             "name the experiment too: trireme plan show PLAN EXPERIMENT"});
}

ImportedModel model_without_experiment(const PlanShowOptions& options) {
  if (!options.experiment.set.empty())
    fail_user(
        {"--set", options.experiment.set.front(), "there is no experiment whose key it could override", "name one"});
  if (is_plan_file(options.plan) && options.model.empty()) return {.model = model_of_file(options.plan)};
  if (options.model.empty())
    fail_user({"plan show", options.plan, "a strategy needs a model to become a plan",
               "name an experiment, or a model with --model"});
  return model_of_options(options, options.model);
}

/// Returns the least batch that the plan can divide; a plan does not state the size of the batch.
int64_t least_batch(const PlanShowOptions& options, const Model& model) {
  int64_t least = 1;
  if (is_plan_file(options.plan)) {
    const Plan plan = read_plan(options.plan, model);
    for (const LayerPlan& layer : plan.layers)
      least = std::max(least, int64_t(std::max(plan.micro_batches, 1)) * std::max(layer.data, 1));
    return least;
  }
  const Strategy strategy = parse_strategy(options.plan, "plan show");
  const std::vector<int>& devices = options.experiment.devices;
  const int data = strategy.devices() ? strategy.data.value_or(1) : devices.empty() ? 1 : devices.front();
  return int64_t(data) * strategy.micro_batches.value_or(strategy.pipeline.value_or(1));
}

std::string workers_in_words(const std::vector<int>& workers) {
  const bool run = workers.back() - workers.front() + 1 == int(workers.size());
  if (workers.size() > 2 && run) return fmt::format("{}-{}", workers.front(), workers.back());
  return fmt::format("{}", fmt::join(workers, ","));
}

/// Consecutive layers with the same stage, degrees and recomputation.
struct Run {
  NodeId first, last;
  int count = 1;
  std::vector<std::string> splits;  ///< all splits except "replicate"
};

std::vector<Run> runs_of(const Plan& plan, const Model& model) {
  std::vector<Run> runs;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerPlan& layer = plan.layers[size_t(id)];
    LayerPlan before = runs.empty() ? LayerPlan{.stage = -1} : plan.layers[size_t(runs.back().last)];
    before.split = layer.split;
    if (before == layer) {
      runs.back().last = id;
      runs.back().count += 1;
    } else {
      runs.push_back({id, id, 1, {}});
    }
    auto& splits = runs.back().splits;
    if (layer.split != "replicate" && std::find(splits.begin(), splits.end(), layer.split) == splits.end())
      splits.push_back(layer.split);
  }
  return runs;
}

std::string plan_in_words(const Plan& plan, const Model& model) {
  std::vector<std::vector<std::string>> rows;
  for (const Run& run : runs_of(plan, model)) {
    const LayerPlan& layer = plan.layers[size_t(run.first)];
    const Mesh mesh = plan.mesh_of(run.first);
    const std::string& first = model.node(run.first).name;
    rows.push_back({std::to_string(layer.stage), workers_in_words(mesh.workers),
                    run.count == 1 ? first : fmt::format("{}..{} ({})", first, model.node(run.last).name, run.count),
                    fmt::format("data {} x tensor {}", layer.data, layer.tensor),
                    mesh.shares.empty() ? "" : fmt::format("{}", fmt::join(mesh.shares, ":")), join(run.splits),
                    layer.recompute});
  }
  std::string text = fmt::format("{}: {} on {}, model {}\n", plan.name, plan.in_short(model),
                                 counted(plan.workers(), "device"), model.name());
  if (!plan.agreement.empty())
    text += fmt::format("{} of the plan below, on {} each; agreement: {}\n",
                        plan.replicas == 1 ? "one replica" : counted(plan.replicas, "replica"),
                        counted(plan.devices, "device"), plan.agreement);
  return text + text_table({"stage", "workers", "layers", "degrees", "shares", "splits", "recomputed with"}, rows);
}

std::string instructions_in_words(const Program& program, const Model& model, int worker) {
  std::string text = fmt::format("worker {}, one step:\n", worker);
  for (const Instruction& instruction : program.instructions(worker)) {
    text += fmt::format("  {}", program.describe(instruction, model));
    if (instruction.micro_batch >= 0 && program.micro_batches > 1)
      text += fmt::format(", micro-batch {}", instruction.micro_batch);
    if (instruction.lag > 0)
      text += fmt::format(", of the batch {} {} ago", instruction.lag, instruction.lag == 1 ? "step" : "steps");
    text += "\n";
  }
  return text;
}

void check_costs_matter(const PlanShowOptions& options) {
  const CostSourceOptions& costs = options.prediction;
  if (costs.cluster.empty() && costs.profile.empty()) return;
  const char* flag = costs.cluster.empty() ? "--profile" : "--cluster";
  if (is_plan_file(options.plan))
    fail_user({flag, options.plan, "a plan file is complete, whatever the machines",
               "leave it out, or predict the plan's time: trireme simulate EXPERIMENT --strategies " + options.plan});
  if (options.experiment.experiment.empty())
    fail_user({flag, options.plan, "the seconds of layers depend on the batch and the precision",
               "name the experiment too: trireme plan show PLAN EXPERIMENT"});
}

}  // namespace

void add_plan_show(CLI::App& plan, PlanShowOptions& o) {
  auto* verb = plan.add_subcommand(
      "show", "print a plan in words or as JSON, with --program its schedule as a drawing; or the layers of a model");
  verb->add_option("plan", o.plan,
                   "a plan file, or a strategy with keys (trireme help strategies); or a model, \"own.pt\" or "
                   "\"resnet18\": the costs of its layers, and how they can be split")
      ->required();
  o.experiment.add_common(*verb);
  verb->get_option("experiment")->required(false);
  o.experiment.add_devices(*verb, false, kMaxPlanDevices);
  verb->add_option("--model", o.model, "named model with usual options, or a TorchScript file (without an experiment)");
  verb->add_option("--sample", o.sample, "shape of a sample without the batch: 3,224,224 (without an experiment)")
      ->delimiter(',')
      ->check(whole_number(1));
  verb->add_option("--vocabulary", o.vocabulary, "samples are token ids below this number (without an experiment)")
      ->check(whole_number(1));
  verb->add_option("--json", o.json,
                   "also write the plan as JSON to this file, for editing and --plan FILE; -: to standard output, "
                   "without other text");
  verb->add_flag("--program", o.program, "draw the schedule of all workers");
  verb->add_option("--worker", o.worker, "list the instructions of this worker")
      ->check(whole_number(0, kMaxPlanDevices));
  verb->add_option("--columns", o.columns, "width of the drawing (default: the terminal's)")
      ->check(whole_number(20, 10'000));
  add_cost_source(*verb, o.prediction,
                  "make the plan for the machines of this file (*.cluster.toml) instead of this machine");
}

int run_plan_show(const PlanShowOptions& options) {
  if (names_model(options.plan)) return show_layers(options);
  check_plan_name(options.plan, "plan show");
  if (options.json != "-") check_target("--json", options.json);
  const CostSourceOptions& costs = options.prediction;
  check_costs_matter(options);
  Progress progress(standard_error_progress());
  RunSpec experiment;
  std::optional<Model> model;
  std::vector<std::string> notes;
  std::optional<TaskData> data;
  if (options.experiment.experiment.empty()) {
    ImportedModel known = model_without_experiment(options);
    notes = std::move(known.notes);
    model = std::move(known.model);
    experiment.devices = {2};
    experiment.batch = std::max(experiment.batch, least_batch(options, *model));
  } else {
    experiment = RunSpec{options.experiment.read_for_devices()};
    check_described_devices({options.plan}, "plan show", experiment.devices.front(), options.experiment, experiment,
                            costs);
    experiment = of_row(experiment, options.plan, experiment.devices.front());
    if (const std::string batch = batch_in_words(experiment); !batch.empty()) notes.push_back("batch: " + batch);
    data = data_to_predict(experiment.data, &progress);
    model = in_phase(&progress, "building the model", [&] { return build_model(experiment, *data); });
  }
  install_memory_accounting();
  const Plan plan = in_phase(&progress, "planning", [&] {
    const std::vector<int>& devices = options.experiment.devices;
    return data ? choose_or_find_plan(options.plan, devices, experiment, *model, *data, costs)
                : choose_plan(options.plan, devices, experiment, *model, /*to_run=*/false);
  });
  if (data) check_shapes(experiment, *model, *data, plan);
  if (options.worker >= plan.devices)
    fail_user({"--worker", std::to_string(options.worker),
               fmt::format("the plan's workers are 0..{}", plan.devices - 1), "choose one of them"});
  if (std::string note = strategy_note(plan.name); !note.empty()) notes.push_back(std::move(note));
  for (const std::string& note : notes) (options.json == "-" ? std::cerr : std::cout) << "note: " << note << "\n";
  if (options.json == "-") {
    std::cout << plan_text(plan, *model);
    return 0;
  }
  if (!options.json.empty()) write_file_atomically(options.json, plan_text(plan, *model));
  std::cout << plan_in_words(plan, *model);
  if (!options.program && options.worker < 0) return 0;
  const Program program = compile(*model, plan, options_of(experiment, plan, true));
  const int columns = options.columns > 0 ? options.columns : standard_output_style().width;
  if (options.program) std::cout << "\n" << draw_schedule(program, *model, columns);
  if (options.worker >= 0) std::cout << "\n" << instructions_in_words(program, *model, options.worker);
  return 0;
}

}  // namespace trireme
