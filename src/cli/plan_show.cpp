// `trireme plan show`: a plan in words, its schedule as a picture, and what a worker is told to do.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/plan_choice.h"
#include "data/open_text.h"
#include "plan/strategy.h"
#include "program/draw.h"
#include "report/table.h"
#include "report/width.h"
#include "train/trainer.h"

namespace trireme {
namespace {

constexpr int64_t kWords = 10000, kPieces = 8000;  // of vocabularies that a data set would count

ModelSpec samples(Shape shape, int64_t classes, LearningTask task = LearningTask::classification, Shape target = {},
                  int64_t vocabulary = 0) {
  return {"", std::move(shape), classes, {}, task, std::move(target), vocabulary};
}

/// What models are built for where no experiment says it: samples as in the data sets that Trireme knows.
const std::vector<ModelSpec>& known_samples() {
  static const std::vector<ModelSpec> known{
      samples({3, 32, 32}, 10),
      samples({1, 28, 28}, 10),
      samples({3, 64, 64}, 200),
      samples({3, 224, 224}, 1000),
      samples({3, 299, 299}, 1000),
      samples({kDefaultSequence}, 64, LearningTask::language, {kDefaultSequence}, 64),
      samples({kDefaultSequence}, kWords, LearningTask::language, {kDefaultSequence}, kWords),
      samples({kDefaultSentence}, 2, LearningTask::classification, {}, kWords),
      samples({2 * kDefaultTranslation}, kPieces, LearningTask::translation, {kDefaultTranslation}, kPieces),
      samples({3, 256, 256}, 81, LearningTask::segmentation, {256, 256})};
  return known;
}

/// The zoo's model of that name with its usual options, for every kind of samples that it takes; at least one.
std::vector<Model> usual_models(const std::string& name) {
  std::vector<Model> models;
  for (ModelSpec spec : known_samples()) {
    if (!does(name, spec.task, spec.vocabulary > 0)) continue;
    spec.name = name;
    try {
      models.push_back(make_model(spec));
    } catch (const Error&) {  // these samples do not fit it
    }
  }
  check_internal(!models.empty(), fmt::format("model {} takes the samples of a known data set", name));
  return models;
}

/// The model that a plan file was made for, from nothing but the file.
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

Model model_without_experiment(const PlanShowOptions& options) {
  if (!options.experiment.set.empty())
    fail_user({"--set", options.experiment.set.front(), "there is no experiment whose key it could override", "name one"});
  if (is_plan_file(options.plan)) return model_of_file(options.plan);
  if (options.model.empty())
    fail_user({"plan show", options.plan, "a strategy becomes a plan for some model only", "name an experiment, or a model with --model"});
  const auto names = model_names();
  if (std::find(names.begin(), names.end(), options.model) == names.end()) {
    const std::string near = closest_match(options.model, names);
    fail_user({"--model", options.model, "is not known",
               near.empty() ? fmt::format("known are {}", join(names)) : fmt::format("did you mean \"{}\"?", near)});
  }
  return usual_models(options.model).at(0);
}

/// A plan says how much it divides a batch, not how large the batch is.
int64_t least_batch(const PlanShowOptions& options, const Model& model) {
  int64_t least = 1;
  if (is_plan_file(options.plan)) {
    const Plan plan = read_plan(options.plan, model);
    for (const LayerPlan& layer : plan.layers) least = std::max(least, int64_t(std::max(plan.micro_batches, 1)) * std::max(layer.data, 1));
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

/// Layers one after the other that lie alike.
struct Run {
  NodeId first, last;
  int count = 1;
  std::vector<std::string> splits;  ///< but for "replicate"
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

/// Columns of text under their titles; empty columns are left out.
std::string table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows) {
  std::vector<int> widths(titles.size(), 0);
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c)
      if (widths[c] > 0) text += pad_to(cells[c], std::max(widths[c], columns_of(titles[c])) + 2);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  };
  std::string text = line(titles);
  for (const auto& row : rows) text += line(row);
  return text;
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
                    mesh.shares.empty() ? "" : fmt::format("{}", fmt::join(mesh.shares, ":")), join(run.splits), layer.recompute});
  }
  std::string text = fmt::format("{}: {} on {} {}, model {}\n", plan.name, plan.in_short(model), plan.devices,
                                 plan.devices == 1 ? "device" : "devices", model.name());
  return text + table({"stage", "workers", "layers", "degrees", "shares", "splits", "recomputed with"}, rows);
}

std::string instructions_in_words(const Program& program, const Model& model, int worker) {
  std::string text = fmt::format("worker {}, one step:\n", worker);
  for (const Instruction& instruction : program.instructions(worker)) {
    text += fmt::format("  {}", program.describe(instruction, model));
    if (instruction.micro_batch >= 0 && program.micro_batches > 1) text += fmt::format(", micro-batch {}", instruction.micro_batch);
    if (instruction.lag > 0) text += fmt::format(", of the batch {} {} ago", instruction.lag, instruction.lag == 1 ? "step" : "steps");
    text += "\n";
  }
  return text;
}

}  // namespace

int run_plan_show(const PlanShowOptions& options) {
  check_plan_name(options.plan, "plan show");
  Experiment experiment;
  std::optional<Model> model;
  if (options.experiment.experiment.empty()) {
    model = model_without_experiment(options);
    experiment.devices = {2};
    experiment.batch = std::max(experiment.batch, least_batch(options, *model));
  } else {
    experiment = options.experiment.read();
    model = build_model(experiment, open_data(experiment.data));
  }
  install_memory_accounting();
  const Plan plan = choose_plan(options.plan, options.experiment.devices, experiment, *model, /*to_run=*/false);
  if (options.worker >= plan.devices)
    fail_user({"--worker", std::to_string(options.worker), fmt::format("the plan's workers are 0..{}", plan.devices - 1), ""});
  std::cout << plan_in_words(plan, *model);
  if (!options.program && options.worker < 0) return 0;
  const Program program = compile(*model, plan, compile_options(experiment, true));
  const int columns = options.columns > 0 ? options.columns : standard_output_style().width;
  if (options.program) std::cout << "\n" << draw_schedule(program, *model, columns);
  if (options.worker >= 0) std::cout << "\n" << instructions_in_words(program, *model, options.worker);
  return 0;
}

}  // namespace trireme
