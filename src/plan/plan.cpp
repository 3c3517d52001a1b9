#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json_file.h"
#include "base/memory.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr int kPlanFormat = 1;

/// JSON's own conversion would cut off fractions and wrap what is too large.
int whole_number(const nlohmann::json& value, std::string_view what, const std::string& where) {
  const bool fits = value.is_number_unsigned()
                        ? value.get<uint64_t>() <= INT32_MAX
                        : value.is_number_integer() && value.get<int64_t>() == value.get<int32_t>();
  if (!fits) fail_user({where, fmt::format("{} = {}", what, value.dump()), "must be a whole number", "correct it"});
  return value.get<int>();
}
int whole_number(const nlohmann::json& json, const char* key, const std::string& where) {
  return whole_number(json.at(key), std::string_view(key), where);
}

/// A misspelt key would be a silent default.
void require_known(const nlohmann::json& json, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = closest_match(key, known);
    fail_user({where, fmt::format("key \"{}\"", key), "is not known in a plan",
               near.empty() ? "known are " + join(known) : fmt::format("did you mean \"{}\"?", near)});
  }
}

/// Runs of consecutive layers with the same degrees, in words: "data 4, then tensor 4 from fc1".
std::string describe_meshes(const Plan& plan, const Model& model) {
  std::string text;
  int data = -1, tensor = -1;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerPlan& layer = plan.layers[size_t(id)];
    if (layer.data == data && layer.tensor == tensor) continue;
    std::string mesh;
    if (layer.data > 1) mesh = fmt::format("data {}", layer.data);
    if (layer.tensor > 1) mesh += fmt::format("{}tensor {}", mesh.empty() ? "" : " x ", layer.tensor);
    if (mesh.empty() && data != -1) mesh = "one worker";
    if (!mesh.empty())
      text += text.empty() ? mesh : fmt::format(", then {} from {}", mesh, model.node(id).name);
    data = layer.data;
    tensor = layer.tensor;
  }
  return text;
}

void validate_stages(const Plan& plan, const std::string& where) {
  std::vector<int> stage_of(size_t(std::max(plan.devices, 0)), -1);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].empty())
      fail_user({where, fmt::format("stage {}", s), "has no workers", "give it at least one or drop the stage"});
    if (!std::is_sorted(plan.stages[s].begin(), plan.stages[s].end()))
      fail_user({where, fmt::format("stage {}", s), "its workers must be listed in ascending order", "sort them"});
    for (int worker : plan.stages[s]) {
      if (worker < 0 || worker >= plan.devices)
        fail_user({where, fmt::format("stage {}, worker {}", s, worker),
                   fmt::format("workers are 0..{}", plan.devices - 1), "correct the number or raise \"devices\""});
      if (stage_of[size_t(worker)] >= 0)
        fail_user({where, fmt::format("worker {}", worker),
                   fmt::format("is in stage {} and in stage {}", stage_of[size_t(worker)], s), "a worker has one stage"});
      stage_of[size_t(worker)] = int(s);
    }
  }
  for (int worker = 0; worker < plan.devices; ++worker)
    if (stage_of[size_t(worker)] < 0)
      fail_user({where, fmt::format("worker {}", worker), "is in no stage", "add it to one or lower \"devices\""});
}

void validate_layer(const Plan& plan, const Model& model, NodeId id, const std::string& where) {
  const Node& node = model.node(id);
  const LayerPlan& layer = plan.layers[size_t(id)];
  std::string what = fmt::format("layer {}", node.name);
  if (layer.stage < 0 || layer.stage >= int(plan.stages.size()))
    fail_user({where, fmt::format("{}: stage {}", what, layer.stage), fmt::format("the plan has {} stages", plan.stages.size()),
               "stages count from 0"});
  auto workers = int(plan.stages[size_t(layer.stage)].size());
  if (layer.data < 1 || layer.tensor < 1 || int64_t(layer.data) * layer.tensor != workers)
    fail_user({where, what, fmt::format("data {} x tensor {} must equal the {} workers of stage {}", layer.data, layer.tensor,
                                        workers, layer.stage),
               "change the degrees or the stage's workers"});
  std::vector<std::string> names;
  for (const ShardingOption& option : node.layer->sharding_options(model.input_shapes(id), layer.tensor)) {
    if (option.name == layer.split) return;
    names.push_back(option.name);
  }
  fail_user({where, fmt::format("{}: split \"{}\"", what, layer.split),
             fmt::format("this {} cannot be split so over a tensor degree of {}", node.layer->kind(), layer.tensor),
             "possible here: " + join(names)});
}

const ShardingOption option_of(const Plan& plan, const Model& model, NodeId id) {
  const LayerPlan& layer = plan.layers[size_t(id)];
  for (ShardingOption& option : model.node(id).layer->sharding_options(model.input_shapes(id), layer.tensor))
    if (option.name == layer.split) return option;
  check_internal(false, "a validated plan names only splits that exist");
  return {};
}

/// A tied parameter is one tensor: all layers that use it must cut it in the same way.
void validate_tied(const Plan& plan, const Model& model, const std::string& where) {
  struct Use {
    NodeId node;
    Placement placement;
    int tensor;
  };
  std::map<std::string, Use> first;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    ShardingOption option = option_of(plan, model, id);
    auto parameters = model.node(id).layer->parameters();
    for (size_t p = 0; p < parameters.size(); ++p) {
      Use use{id, option.parameters[p], option.parameters[p].is_shard() ? plan.layers[size_t(id)].tensor : 1};
      auto [it, fresh] = first.emplace(parameters[p].name, use);
      if (fresh || (it->second.placement == use.placement && it->second.tensor == use.tensor)) continue;
      fail_user({where, fmt::format("parameter {}", parameters[p].name),
                 fmt::format("is shared by {} ({}) and {} ({}), which cut it differently", model.node(it->second.node).name,
                             to_string(it->second.placement), model.node(id).name, to_string(use.placement)),
                 "give both layers the same tensor degree and the same split"});
    }
  }
}

}  // namespace

Mesh Plan::mesh_of(NodeId node) const {
  const LayerPlan& layer = layers[size_t(node)];
  return {stages[size_t(layer.stage)], layer.data, layer.tensor};
}

std::string Plan::in_short(const Model& model) const {
  std::string text = describe_meshes(*this, model);
  if (stages.size() > 1) text += fmt::format("{}pipeline {}", text.empty() ? "" : " x ", stages.size());
  if (text.empty()) text = "one device";
  if (micro_batches > 1) text += fmt::format(", {} micro-batches", micro_batches);
  return text;
}

void validate(const Plan& plan, const Model& model, int64_t batch, const std::string& where) {
  if (plan.model_fingerprint != model.fingerprint())
    fail_user({where, fmt::format("a plan for model {} ({})", plan.model, plan.model_fingerprint),
               fmt::format("the experiment's model is {} ({})", model.name(), model.fingerprint()),
               "use a plan made for this model, or make one with `trireme plan`"});
  if (plan.devices < 1) fail_user({where, fmt::format("devices = {}", plan.devices), "at least one is needed", ""});
  if (plan.devices > kMaxDevices)
    fail_user({where, fmt::format("devices = {}", plan.devices), fmt::format("at most {} are supported", kMaxDevices), ""});
  if (plan.stages.size() > model.nodes().size() - size_t(model.input_count()))
    fail_user({where, fmt::format("{} stages", plan.stages.size()),
               fmt::format("the model has only {} layers", model.nodes().size() - size_t(model.input_count())),
               "use fewer stages"});
  validate_stages(plan, where);
  if (plan.micro_batches < 1)
    fail_user({where, fmt::format("micro_batches = {}", plan.micro_batches), "at least one is needed", ""});
  if (plan.micro_batches > batch)
    fail_user({where, fmt::format("micro_batches = {}", plan.micro_batches),
               fmt::format("the batch has only {} samples", batch), "use fewer micro-batches or a larger batch"});
  std::set<int> used;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    validate_layer(plan, model, id, where);
    const LayerPlan& layer = plan.layers[size_t(id)];
    used.insert(layer.stage);
    if (layer.data > batch / plan.micro_batches)
      fail_user({where, fmt::format("layer {}: data degree {}", model.node(id).name, layer.data),
                 plan.micro_batches == 1 ? fmt::format("batch = {} has fewer samples", batch)
                                         : fmt::format("batch = {} in {} micro-batches leaves {} samples each", batch,
                                                       plan.micro_batches, batch / plan.micro_batches),
                 "use a larger batch, fewer micro-batches or a smaller data degree"});
  }
  for (size_t s = 0; s < plan.stages.size(); ++s)
    if (!used.count(int(s))) fail_user({where, fmt::format("stage {}", s), "holds no layer", "move a layer there or drop it"});
  validate_tied(plan, model, where);
}

nlohmann::json to_json(const Plan& plan, const Model& model) {
  nlohmann::json layers = nlohmann::json::array(), stages = nlohmann::json::array();
  for (const auto& workers : plan.stages) stages.push_back({{"workers", workers}});
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerPlan& layer = plan.layers[size_t(id)];
    layers.push_back({{"layer", model.node(id).name}, {"stage", layer.stage}, {"data", layer.data}, {"tensor", layer.tensor},
                      {"split", layer.split}});
  }
  return {{"trireme_plan", kPlanFormat}, {"name", plan.name},         {"model", plan.model},
          {"model_fingerprint", plan.model_fingerprint},              {"devices", plan.devices},
          {"schedule", plan.schedule},   {"micro_batches", plan.micro_batches},
          {"stages", stages},            {"layers", layers}};
}

Plan plan_from_json(const nlohmann::json& json, const Model& model, const std::string& where) {
  Plan plan;
  try {
    require_known(json, {"trireme_plan", "name", "model", "model_fingerprint", "devices", "schedule", "micro_batches", "stages", "layers"},
                  where);
    if (int format = whole_number(json, "trireme_plan", where); format != kPlanFormat)
      fail_user({where, fmt::format("trireme_plan = {}", format), fmt::format("this version reads format {}", kPlanFormat),
                 "make the plan again with this version"});
    plan.name = json.value("name", "");
    plan.model = json.at("model").get<std::string>();
    plan.model_fingerprint = json.at("model_fingerprint").get<std::string>();
    plan.devices = whole_number(json, "devices", where);
    plan.schedule = json.at("schedule").get<std::string>();
    plan.micro_batches = whole_number(json, "micro_batches", where);
    for (const auto& stage : json.at("stages")) {
      require_known(stage, {"workers"}, where + ": stages");
      auto& workers = plan.stages.emplace_back();
      for (const auto& worker : stage.at("workers")) workers.push_back(whole_number(worker, std::string_view("worker"), where));
    }
    plan.layers.resize(model.nodes().size());
    if (plan.model_fingerprint != model.fingerprint()) return plan;  // validate() explains; layer names need not match
    std::set<NodeId> seen;
    for (const auto& entry : json.at("layers")) {
      auto name = entry.at("layer").get<std::string>();
      NodeId id = model.find(name);
      if (id < model.input_count())
        fail_user({where, fmt::format("layer \"{}\"", name), "the model has no layer of that name", "correct the name"});
      if (!seen.insert(id).second)
        fail_user({where, fmt::format("layer \"{}\"", name), "is listed twice", "remove one of the entries"});
      const std::string at = fmt::format("{}: layer {}", where, name);
      require_known(entry, {"layer", "stage", "data", "tensor", "split"}, at);
      plan.layers[size_t(id)] = {whole_number(entry, "stage", at), whole_number(entry, "data", at), whole_number(entry, "tensor", at),
                                 entry.at("split").get<std::string>()};
    }
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
      if (!seen.count(id))
        fail_user({where, fmt::format("layer \"{}\"", model.node(id).name), "is missing from \"layers\"", "add an entry for it"});
  } catch (const nlohmann::json::exception& error) {
    fail_user({where, "not a plan", first_line(error), "compare with a plan.json of a run folder"});
  }
  return plan;
}

Plan read_plan(const std::filesystem::path& file, const Model& model) {
  return plan_from_json(read_json_file(file), model, file.string());
}

}  // namespace trireme
