#include "plan/named.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "base/counted.h"
#include "plan/strategy.h"
#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Keeps the bubble (p-1)/(m+p-1) below 20 % (Huang et al., "GPipe": negligible if m >= 4p).
constexpr int kMicroBatchesPerStage = 4;
constexpr int kChunks = 2;  // stages per worker of an interleaved schedule whose strategy does not state them

LayerSeconds seconds_or_flops(const Model& model, const LayerSeconds& seconds) {
  if (!seconds.empty()) return seconds;
  LayerSeconds flops(model.nodes().size(), 0.0);
  for (NodeId id = model.input_count(); id < NodeId(flops.size()); ++id)
    flops[size_t(id)] = model.node(id).layer->forward_flops(model.input_shapes(id));
  return flops;
}

bool all_equal(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values.front(); });
}

/// Returns the speed of each device; empty if all are equal.
std::vector<double> speeds_of(const Cluster& cluster) {
  std::vector<double> speeds;
  for (const Device& device : cluster.devices) speeds.push_back(device.speed);
  return all_equal(speeds) ? std::vector<double>{} : speeds;
}

/// Returns a plan with the fields that do not depend on the strategy: model, devices, speeds.
Plan empty_plan(const Model& model, const Cluster& cluster) {
  Plan plan;
  plan.model = model.name();
  plan.model_fingerprint = model.fingerprint();
  plan.devices = cluster.size();
  plan.speeds = speeds_of(cluster);
  return plan;
}

void require_some_split(const Model& model, const std::vector<std::string>& splits, int degree) {
  if (degree == 1) return;
  for (NodeId id = model.input_count(); id < NodeId(splits.size()); ++id)
    if (splits[size_t(id)] != "replicate") return;
  fail_user({"plan", fmt::format("tensor degree {}", degree),
             fmt::format("divides no layer of model {}: channel, feature and class counts must be multiples of it",
                         model.name()),
             "use another degree"});
}

/// Throws a user error if a split was requested and no layer uses it. "height" refers to the height of a sample's
/// images, "sequence" to the length of its sequence.
void require_asked_split(const Model& model, const std::vector<std::string>& splits, const Degrees& degrees) {
  if (degrees.split.empty() || std::find(splits.begin(), splits.end(), degrees.split) != splits.end()) return;
  const bool height = degrees.split == "height";
  std::set<int64_t, std::greater<>> sizes;
  for (const Node& node : model.nodes())
    if (node.sample_shape.size() == (height ? 3u : 2u)) sizes.insert(node.sample_shape[height ? 1 : 0]);
  fail_user(
      {"plan", fmt::format("split={}", degrees.split),
       sizes.empty()
           ? fmt::format("model {} has no {}", model.name(), height ? "images" : "sequences")
           : fmt::format("no layer of model {} can be split in this way with a tensor degree of {}: the {} are {}",
                         model.name(), degrees.tensor, height ? "heights" : "lengths", fmt::join(sizes, ", ")),
       degrees.tensor == 1 ? "use a tensor degree of at least 2" : "leave it out or use another tensor degree"});
}

/// Returns enough micro-batches to hide the bubble, or fewer if a data shard would get no sample. With several stages
/// per worker in turn, rounds go over the pipeline's positions, so their count is a multiple of the positions.
int default_micro_batches(const Plan& plan, const Model& model, const Degrees& degrees, int64_t batch) {
  if (degrees.pipeline == 1) return 1;
  const bool in_turn = degrees.chunks > 1 && !(degrees.schedule && degrees.schedule->v_shaped);
  const int step = in_turn ? degrees.pipeline : 1;
  int count =
      int(std::min<int64_t>(kMicroBatchesPerStage * degrees.pipeline, std::max<int64_t>(1, batch / degrees.data)));
  count = std::max(step, count / step * step);
  if (plan.speeds.empty()) return count;
  std::vector<Mesh> meshes;  // one per stage
  for (NodeId id = model.input_count(); id < NodeId(plan.layers.size()); ++id)
    if (plan.layers[size_t(id)].stage == int(meshes.size())) meshes.push_back(plan.mesh_of(id));
  const auto fits = [&] {
    return std::all_of(meshes.begin(), meshes.end(),
                       [&](const Mesh& mesh) { return fills_all_shards(mesh, batch / count); });
  };
  while (count > step && !fits()) count -= step;
  return count;
}

std::vector<double> stage_speeds(const Plan& plan) {
  std::vector<double> speeds;
  if (plan.speeds.empty()) return speeds;
  for (const auto& workers : plan.stages)
    speeds.push_back(std::accumulate(workers.begin(), workers.end(), 0.0,
                                     [&](double sum, int w) { return sum + plan.speeds[size_t(w)]; }));
  return all_equal(speeds) ? std::vector<double>{} : speeds;
}

Degrees degrees_of(const Strategy& strategy, const NamedStrategy* named, int devices, const std::string& where) {
  if (!named)
    return {.data = strategy.data.value_or(1),
            .tensor = strategy.tensor.value_or(1),
            .pipeline = strategy.pipeline.value_or(1),
            .split = strategy.split};
  Degrees degrees{.split = strategy.split};
  if (named->second) {
    if (devices < named->least_devices || devices % 2)
      fail_user({where, "cannot use " + counted(devices, "device"),
                 fmt::format("a {} needs an even number of at least {} devices", family_of(named->name),
                             named->least_devices),
                 "raise --devices"});
    degrees.*named->second = 2;
  }
  if (named->axis) degrees.*named->axis = named->second ? devices / 2 : devices;
  return degrees;
}

/// Returns the schedule that the strategy names, or the one that its other keys imply.
const Schedule& schedule_of(const Strategy& strategy, const NamedStrategy* named, const Degrees& degrees) {
  if (named && named->schedule) return *named->schedule;
  if (strategy.schedule) return find_schedule(*strategy.schedule, "strategy");
  if (strategy.chunks.value_or(1) > 1) return chunked_schedule();
  return degrees.pipeline == 1 && strategy.micro_batches.value_or(1) > 1 ? lean_schedule() : usual_schedule();
}

int chunks_of(const Strategy& strategy, const Schedule& schedule, const Degrees& degrees, const std::string& where) {
  const int chunks = strategy.chunks.value_or(schedule.chunked ? kChunks : 1);
  if (chunks == 1) return 1;
  if (!schedule.chunked)
    fail_user({where, fmt::format("chunks={}", chunks),
               fmt::format("under schedule {} a worker has one stage", schedule.name),
               fmt::format("use schedule={}", chunked_schedule().name)});
  if (degrees.pipeline == 1)
    fail_user({where, fmt::format("{} chunks per worker", chunks), "a pipeline of at least 2 workers is needed",
               "use more devices or another schedule"});
  return chunks;
}

void add_recompute(const Strategy& strategy, const Model& model, const std::string& where, Plan& plan) {
  const auto recompute = strategy.recompute.value_or(Strategy::Recompute::none);
  plan.recompute_last = recompute != Strategy::Recompute::except_last;
  plan.recompute_communication = strategy.recompute_communication.value_or(false);
  if (recompute == Strategy::Recompute::none) {
    if (plan.recompute_communication)
      fail_user({where, "recompute_communication=1", "the strategy recomputes nothing", "add recompute=all"});
    return;
  }
  if (recompute == Strategy::Recompute::selective) {
    const auto& nodes = model.nodes();
    if (std::none_of(nodes.begin() + model.input_count(), nodes.end(),
                     [](const Node& node) { return node.layer->is_cheap_to_recompute(); }))
      fail_user({where, "recompute=selective",
                 fmt::format("model {} has no attention, which it recomputes", model.name()), "use recompute=all"});
    return label_selectively(model, plan);
  }
  const std::vector<std::string> labels = recompute_labels(model);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    plan.layers[size_t(id)].recompute = labels[size_t(id)];
}

/// Sets the fields of the plan that do not depend on the degrees.
void add_extras(const Strategy& strategy, const NamedStrategy* named, const Model& model, const std::string& where,
                Plan& plan) {
  plan.optimizer_sharding = strategy.sharding.value_or(named ? named->sharding : OptimizerSharding::none);
  plan.sharding_group = strategy.sharding_group.value_or(0);
  plan.compression = strategy.compression.value_or(Compression{});
  plan.vertical_sync = strategy.vertical_sync.value_or(false);
  plan.scatter_messages = strategy.scatter_messages.value_or(false);
  const auto has_tensor_axis = [](const LayerPlan& layer) { return layer.tensor > 1; };
  if (plan.scatter_messages &&
      (plan.stages.size() < 2 || std::none_of(plan.layers.begin(), plan.layers.end(), has_tensor_axis)))
    fail_user({where, "scatter_messages=1", "slices are what tensor ranks of one stage send to another stage",
               "use it with tensor and pipeline degrees above 1"});
  add_recompute(strategy, model, where, plan);
}

/// Returns the devices that the strategy uses, with the speeds that it states.
Cluster cluster_for(const Strategy& strategy, const NamedStrategy* named, const Cluster& cluster,
                    const std::string& where) {
  Cluster used = cluster;
  if (named && named->one_device) used.devices.resize(1);
  if (strategy.speeds.empty()) return used;
  if (strategy.speeds.size() != used.devices.size())
    fail_user({where, fmt::format("{} speeds", strategy.speeds.size()),
               fmt::format("the plan is for {} devices", used.size()), "give one speed per device"});
  for (size_t i = 0; i < used.devices.size(); ++i) used.devices[i].speed = strategy.speeds[i];
  return used;
}

}  // namespace

void label_selectively(const Model& model, Plan& plan) {
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const Layer& layer = *model.node(id).layer;
    // Each such layer is a run of its own. Nothing in that run reads the layer's output, so it need not be computed.
    const bool gathers = plan.recompute_communication && plan.layers[size_t(id)].tensor > 1;
    if (layer.is_cheap_to_recompute() || (gathers && layer.restores()))
      plan.layers[size_t(id)].recompute = model.node(id).name;
  }
}

std::vector<std::string> recompute_labels(const Model& model) {
  std::vector<std::string> labels;
  for (const Node& node : model.nodes()) {
    const std::string block = block_of(node.name);
    labels.push_back(block.empty() ? "top" : block);
  }
  std::string sequence, first;  // the open sequence, and the name of its block's first layer
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const Node& node = model.node(id);
    std::string& label = labels[size_t(id)];
    const bool is_element = label == node.name && std::count(labels.begin(), labels.end(), label) == 1;
    const std::string parent = node.name.substr(0, node.name.rfind('.'));
    if (!is_element || parent != sequence) first.clear();
    if (!is_element) continue;
    if (first.empty()) first = node.name;
    sequence = parent;
    label = first;
    if (node.layer->ends_block()) first.clear();
  }
  return labels;
}

Plan uniform_plan(const Model& model, const Cluster& cluster, const Degrees& degrees, int64_t batch,
                  const LayerSeconds& seconds) {
  const int64_t devices = int64_t(degrees.data) * degrees.tensor * degrees.pipeline;
  if (devices != cluster.size())
    fail_user(
        {"plan",
         fmt::format("data {} x tensor {} x pipeline {} = {}", degrees.data, degrees.tensor, degrees.pipeline, devices),
         fmt::format("there are {} devices", cluster.size()), "make the product equal the number of devices"});
  Plan plan = empty_plan(model, cluster);
  const int per_stage = degrees.data * degrees.tensor, stages = degrees.pipeline * degrees.chunks;
  for (int s = 0; s < stages; ++s) {
    std::vector<int> workers(static_cast<size_t>(per_stage));
    const int position = degrees.schedule ? degrees.schedule->position_of(s, degrees.pipeline) : s % degrees.pipeline;
    std::iota(workers.begin(), workers.end(), position * per_stage);
    plan.stages.push_back(std::move(workers));
  }
  for (int stage : balance_stages(model, stages, seconds_or_flops(model, seconds), stage_speeds(plan)))
    plan.layers.push_back({stage, degrees.data, degrees.tensor});
  plan.micro_batches =
      degrees.micro_batches > 0 ? degrees.micro_batches : default_micro_batches(plan, model, degrees, batch);
  auto splits = choose_splits(model, degrees.tensor, std::max<int64_t>(1, batch / degrees.data / plan.micro_batches),
                              degrees.split);
  require_asked_split(model, splits, degrees);
  require_some_split(model, splits, degrees.tensor);
  for (size_t id = 0; id < splits.size(); ++id) plan.layers[id].split = splits[id];
  return plan;
}

Plan named_plan(std::string_view name, const Model& model, const Cluster& cluster, int64_t batch,
                const LayerSeconds& seconds, int micro_batches) {
  const std::string where = fmt::format("strategy {}", name);
  const Strategy strategy = parse_strategy(name, where);
  if (is_planned(strategy.name))
    fail_user({where, std::string(name), "is found by a planner from layer costs, not built by a rule",
               fmt::format("write it to a file first: trireme plan show {} EXPERIMENT --json FILE", name)});
  const NamedStrategy* named = look_up_strategy(strategy.name);
  const Cluster used = cluster_for(strategy, named, cluster, where);

  Degrees degrees = degrees_of(strategy, named, used.size(), fmt::format("strategy {}", strategy.name));
  const Schedule& schedule = schedule_of(strategy, named, degrees);
  degrees.chunks = chunks_of(strategy, schedule, degrees, where);
  degrees.schedule = &schedule;
  degrees.micro_batches = strategy.micro_batches.value_or(schedule.whole_batches ? 1
                                                          : degrees.pipeline > 1 ? micro_batches
                                                                                 : 0);
  Plan plan;
  if (named && named->make) {
    plan = empty_plan(model, used);
    plan.schedule = strategy.schedule.value_or(plan.schedule);
    plan.micro_batches = strategy.micro_batches.value_or(plan.micro_batches);
    plan = named->make(std::move(plan), model, seconds_or_flops(model, seconds), where);
  } else {
    plan = uniform_plan(model, used, degrees, batch, seconds);
    plan.schedule = schedule.name;
  }
  add_extras(strategy, named, model, where, plan);
  plan.name = name;
  validate(plan, model, batch, where);
  return plan;
}

int data_degree(std::string_view name, int devices) {
  const std::string where = fmt::format("strategy {}", name);
  const Strategy strategy = parse_strategy(name, where);
  if (is_planned(strategy.name))
    fail_user(
        {where, "has no data degree of its own", "a planner chooses it for a given batch", "name another strategy"});
  return degrees_of(strategy, look_up_strategy(strategy.name), devices, where).data;
}

Plan single_plan(const Model& model, int64_t batch) {
  return named_plan(single_strategy(), model, Cluster::uniform(1), batch, {});
}

}  // namespace trireme
