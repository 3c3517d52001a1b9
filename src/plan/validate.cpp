#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "base/counted.h"
#include "base/text.h"
#include "trireme/error.h"
#include "trireme/plan.h"

namespace trireme {
namespace {

void validate_stage(const Plan& plan, size_t s, const std::string& where) {
  const std::vector<int>& workers = plan.stages[s];
  if (workers.empty())
    fail_user({where, fmt::format("stage {}", s), "has no workers", "give it at least one or drop the stage"});
  for (int worker : workers)
    if (worker < 0 || worker >= plan.devices)
      fail_user({where, fmt::format("stage {}, worker {}", s, worker),
                 fmt::format("workers are 0..{}", plan.devices - 1), "correct the number or raise \"devices\""});
  for (size_t i = 1; i < workers.size(); ++i) {
    if (workers[i - 1] == workers[i])
      fail_user(
          {where, fmt::format("stage {}, worker {}", s, workers[i]), "is listed twice", "remove one of the entries"});
    if (workers[i - 1] > workers[i])
      fail_user({where, fmt::format("stage {}", s), "its workers must be listed in ascending order", "sort them"});
  }
}

/// Checks that two stages have the same workers or no worker in common, and that each worker is in a stage.
void validate_stages(const Plan& plan, const std::string& where) {
  std::vector<int> stage_of(size_t(plan.devices), -1);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    validate_stage(plan, s, where);
    for (int worker : plan.stages[s]) {
      int& first = stage_of[size_t(worker)];
      if (first >= 0 && plan.stages[size_t(first)] != plan.stages[s])
        fail_user({where, fmt::format("worker {}", worker),
                   fmt::format("is in stage {} and in stage {}, whose workers are not all the same", first, s),
                   "let two stages share all of their workers or none"});
      if (first < 0) first = int(s);
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
    fail_user({where, fmt::format("{}: stage {}", what, layer.stage),
               fmt::format("the plan has {} stages", plan.stages.size()),
               "choose a stage that exists; stages count from 0"});
  auto workers = int(plan.stages[size_t(layer.stage)].size());
  if (layer.data < 1 || layer.tensor < 1 || int64_t(layer.data) * layer.tensor != workers)
    fail_user({where, what,
               fmt::format("data {} x tensor {} must equal the {} workers of stage {}", layer.data, layer.tensor,
                           workers, layer.stage),
               "change the degrees or the stage's workers"});
  std::vector<std::string> names;
  for (const ShardingOption& option : node.layer->sharding_options(model.input_shapes(id), layer.tensor)) {
    if (option.name == layer.split) return;
    names.push_back(option.name);
  }
  fail_user(
      {where, fmt::format("{}: split \"{}\"", what, layer.split),
       fmt::format("this {} cannot be split in this way with a tensor degree of {}", node.layer->kind(), layer.tensor),
       "possible here: " + join(names)});
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
      fail_user(
          {where, fmt::format("parameter {}", parameters[p].name),
           fmt::format("is shared by {} ({}) and {} ({}), which split it differently", model.node(it->second.node).name,
                       to_string(it->second.placement), model.node(id).name, to_string(use.placement)),
           "give both layers the same tensor degree and the same split"});
    }
  }
}

/// "batch = 12 in 4 micro-batches leaves 3 samples each"
std::string samples_in_words(const Plan& plan, int64_t batch) {
  return fmt::format("batch = {} in {} micro-batches leaves {} samples each", batch, plan.micro_batches,
                     batch / plan.micro_batches);
}

/// Checks that each data shard gets samples. Full micro-batches differ by at most one sample; both sizes are checked.
void validate_shards(const Plan& plan, const Model& model, NodeId id, int64_t batch, const std::string& where) {
  const LayerPlan& layer = plan.layers[size_t(id)];
  const std::string& name = model.node(id).name;
  if (layer.data > batch / plan.micro_batches)
    fail_user(
        {where, fmt::format("layer {}: data degree {}", name, layer.data),
         plan.micro_batches == 1 ? fmt::format("batch = {} has fewer samples", batch) : samples_in_words(plan, batch),
         "use a larger batch, fewer micro-batches or a smaller data degree"});
  if (plan.speeds.empty()) return;
  const Mesh mesh = plan.mesh_of(id);
  const int64_t least = batch / plan.micro_batches, most = (batch + plan.micro_batches - 1) / plan.micro_batches;
  for (int64_t samples : {least, most})
    if (!fills_all_shards(mesh, samples))
      fail_user({where, fmt::format("layer {}: speeds", name),
                 fmt::format("the slowest of {} data shards would get none of {} samples", layer.data, samples),
                 "use a larger batch, fewer micro-batches or speeds that differ less"});
}

void validate_cluster_devices(const Plan& plan, const std::string& where) {
  if (plan.cluster_devices.empty()) return;
  if (plan.cluster_devices.size() != size_t(plan.workers()))
    fail_user({where, fmt::format("{} cluster_devices", plan.cluster_devices.size()),
               "the plan is for " + counted(plan.workers(), "device"), "give one for each worker, or leave them out"});
  std::set<int> seen;
  for (int device : plan.cluster_devices) {
    if (device < 0)
      fail_user({where, fmt::format("cluster_devices: {}", device), "devices of a cluster count from 0",
                 "correct the number"});
    if (!seen.insert(device).second)
      fail_user({where, fmt::format("cluster_devices: {}", device), "is listed twice",
                 "give each worker a device of its own"});
  }
}

void validate_extras(const Plan& plan, const std::string& where) {
  const Schedule* schedule = look_up_schedule(plan.schedule);
  if (plan.vertical_sync && !(schedule && schedule->has_vertical_sync)) {
    const std::string known = join(schedule_names([](const Schedule& s) { return s.has_vertical_sync; }));
    fail_user({where, fmt::format("vertical_sync = true with schedule {}", plan.schedule),
               fmt::format("only schedule {} supports it", known),
               fmt::format("use schedule {} or leave it out", known)});
  }
  if (plan.compression.kind == Compression::Kind::powersgd && plan.compression.rank < 1)
    fail_user(
        {where, fmt::format("compression: rank = {}", plan.compression.rank), "must be at least 1", "4 is usual"});
  validate_cluster_devices(plan, where);
  if (plan.replicas < 1)
    fail_user({where, fmt::format("replicas = {}", plan.replicas), "at least one is needed", "use 1 or more"});
  if (plan.replicas > 1 && plan.agreement.empty())
    fail_user({where, fmt::format("replicas = {}", plan.replicas),
               "the plan does not say when they agree on their weights",
               "name an update policy as \"agreement\", or write data degrees in place of replicas"});
  if (plan.speeds.empty()) return;
  if (plan.speeds.size() != size_t(plan.devices))
    fail_user({where, fmt::format("{} speeds", plan.speeds.size()),
               "the plan is for " + counted(plan.devices, "device"), "give one speed per device"});
  for (double speed : plan.speeds)
    if (!std::isfinite(speed) || speed <= 0)
      fail_user({where, fmt::format("speed {}", speed), "must be a positive number",
                 "use 1 for each device of the usual speed"});
}

}  // namespace

void validate(const Plan& plan, const Model& model, int64_t batch, const std::string& where) {
  if (plan.model_fingerprint != model.fingerprint())
    fail_user({where, fmt::format("a plan for model {} ({})", plan.model, plan.model_fingerprint),
               fmt::format("the experiment's model is {} ({})", model.name(), model.fingerprint()),
               "use a plan made for this model, or make one with `trireme plan`"});
  if (plan.model != model.name())
    fail_user({where, fmt::format("model \"{}\"", plan.model),
               fmt::format("its fingerprint is that of {}", model.name()), "correct the name"});
  if (plan.devices < 1)
    fail_user({where, fmt::format("devices = {}", plan.devices), "at least one is needed", "use 1 or more"});
  if (plan.devices > kMaxPlanDevices)
    fail_user({where, fmt::format("devices = {}", plan.devices),
               fmt::format("at most {} are supported", kMaxPlanDevices), "use fewer devices"});
  if (plan.stages.size() > model.nodes().size() - size_t(model.input_count()))
    fail_user({where, counted(int64_t(plan.stages.size()), "stage"),
               fmt::format("the model has only {} layers", model.nodes().size() - size_t(model.input_count())),
               "use fewer stages"});
  validate_stages(plan, where);
  validate_extras(plan, where);
  if (plan.micro_batches < 1)
    fail_user(
        {where, fmt::format("micro_batches = {}", plan.micro_batches), "at least one is needed", "use 1 or more"});
  if (plan.micro_batches > batch)
    fail_user({where, fmt::format("micro_batches = {}", plan.micro_batches),
               "the batch has only " + counted(batch, "sample"), "use fewer micro-batches or a larger batch"});
  std::set<int> used;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    validate_layer(plan, model, id, where);
    validate_shards(plan, model, id, batch, where);
    used.insert(plan.layers[size_t(id)].stage);
  }
  for (size_t s = 0; s < plan.stages.size(); ++s)
    if (!used.count(int(s)))
      fail_user({where, fmt::format("stage {}", s), "holds no layer", "move a layer there or remove the stage"});
  validate_tied(plan, model, where);
}

}  // namespace trireme
