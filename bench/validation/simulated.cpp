#include "validation/simulated.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <numeric>

#include "cost/datasheet_costs.h"
#include "cost/instruction_costs.h"
#include "plan/cluster_file.h"
#include "program/compile.h"
#include "sim/simulate.h"
#include "trireme/error.h"

namespace trireme::validation {
namespace {

constexpr int kFewDevices = 16;  // up to here every device is simulated, and programs are checked
constexpr int kSteps = 3;
constexpr int kStepsInFlight = 10;  // steps of schedules without flush overlap
constexpr int kRounds = 40;         // rounds of a bisection

/// The number at the end of a block's name ("transformer.h.3" -> 3); -1: none.
int block_number(const std::string& name) {
  const std::string block = block_of(name);
  const size_t dot = block.rfind('.');
  if (dot == std::string::npos || block.find_first_not_of("0123456789", dot + 1) != std::string::npos) return -1;
  return std::stoi(block.substr(dot + 1));
}

std::unique_ptr<LayerCosts> datasheet_of(const Setting& setting) {
  return std::make_unique<DatasheetCosts>(setting.model, setting.cluster, setting.precision, setting.optimizer_states);
}

}  // namespace

double step_seconds(const Setting& setting, const Plan& plan) {
  const Cluster cluster = part_of(setting.cluster, plan.devices);
  const bool few = plan.devices <= kFewDevices;
  validate(plan, setting.model, setting.batch, plan.name);
  const Program program =
      compile(setting.model, plan,
              {.mixed_precision = setting.precision == Precision::bf16, .private_replicas = true, .checked = few});
  std::unique_ptr<LayerCosts> own;
  if (!setting.layers) own = datasheet_of(setting);
  const ClusterLinks links(cluster, setting.library);
  InstructionCostOptions options{.batch = setting.batch, .precision = setting.precision};
  if (!few) options.representatives = representatives(program, cluster, setting.batch);
  InstructionCosts costs(program, setting.model, cluster, setting.layers ? *setting.layers : *own, links, options);
  const int usual = program.greatest_lag > 0 ? kStepsInFlight : few ? kSteps : 1;
  const int steps = setting.steps > 0 ? setting.steps : usual;
  return simulate(program, setting.model, costs, links, {.steps = steps, .ranks = options.representatives})
      .step_seconds;
}

LayerSeconds layer_seconds(const Setting& setting, int64_t samples) {
  std::unique_ptr<LayerCosts> own;
  if (!setting.layers) own = datasheet_of(setting);
  const LayerCosts& costs = setting.layers ? *setting.layers : *own;
  const Model& model = setting.model;
  LayerSeconds seconds(model.nodes().size(), 0.0);
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const ShardingOption whole = model.node(id).layer->sharding_options(model.input_shapes(id), 1).front();
    const LayerCost cost = costs.seconds(id, whole, 1, samples, setting.cluster.devices.front().kind);
    seconds[size_t(id)] = cost.forward + cost.backward;
  }
  return seconds;
}

Plan balanced_plan(const Setting& setting, const Degrees& degrees, const std::string& schedule) {
  const Cluster cluster = part_of(setting.cluster, degrees.data * degrees.tensor * degrees.pipeline);
  const int64_t samples = std::max<int64_t>(1, setting.batch / degrees.data / std::max(1, degrees.micro_batches));
  const LayerSeconds seconds = degrees.pipeline > 1 ? layer_seconds(setting, samples) : LayerSeconds{};
  Plan plan = uniform_plan(setting.model, cluster, degrees, setting.batch, seconds);
  plan.schedule = schedule;
  plan.name = fmt::format("data {} x tensor {} x pipeline {}", degrees.data, degrees.tensor, degrees.pipeline);
  return plan;
}

Plan block_plan(const Setting& setting, const Degrees& degrees, const std::string& schedule) {
  Plan plan = balanced_plan(
      setting, {.data = degrees.data, .tensor = degrees.tensor, .pipeline = 1, .micro_batches = degrees.micro_batches},
      schedule);
  plan.devices *= degrees.pipeline;
  const int per_position = degrees.data * degrees.tensor, stages = degrees.pipeline * degrees.chunks;
  plan.stages.assign(size_t(stages), std::vector<int>(size_t(per_position)));
  for (int stage = 0; stage < stages; ++stage)
    std::iota(plan.stages[size_t(stage)].begin(), plan.stages[size_t(stage)].end(),
              look_up_schedule(schedule)->position_of(stage, degrees.pipeline) * per_position);
  int blocks = 0;
  for (const Node& node : setting.model.nodes()) blocks = std::max(blocks, block_number(node.name) + 1);
  check_internal(blocks > 0 && blocks % stages == 0, "stages of whole blocks have equally many");
  int stage = 0;
  for (NodeId id = setting.model.input_count(); id < NodeId(plan.layers.size()); ++id) {
    const int block = block_number(setting.model.node(id).name);
    if (block >= 0) stage = block * stages / blocks;
    plan.layers[size_t(id)].stage = stage;
  }
  return plan;
}

void recompute_blocks(const Model& model, bool last, Plan& plan) {
  const std::vector<std::string> labels = recompute_labels(model);
  for (NodeId id = model.input_count(); id < NodeId(plan.layers.size()); ++id)
    plan.layers[size_t(id)].recompute = labels[size_t(id)];
  plan.recompute_last = last;
}

void recompute_stages(bool last, Plan& plan) {
  for (LayerPlan& layer : plan.layers) layer.recompute = fmt::format("stage {}", layer.stage);
  plan.recompute_last = last;
}

Cluster example_cluster(const std::string& name) {
  return read_cluster(std::filesystem::path(TRIREME_CLUSTERS) / (name + ".cluster.toml"));
}

Cluster part_of(const Cluster& cluster, int devices) { return first_devices(cluster, devices); }

Cluster with_efficiency(Cluster cluster, double share) {
  for (DeviceKind& kind : cluster.kinds)
    for (auto& [precision, speed] : kind.speeds) speed.greatest_efficiency = share;
  return cluster;
}

Cluster with_memory_efficiency(Cluster cluster, double share) {
  for (DeviceKind& kind : cluster.kinds) kind.memory_efficiency = share;
  return cluster;
}

Cluster with_launch(Cluster cluster, double seconds) {
  for (DeviceKind& kind : cluster.kinds) kind.launch = seconds;
  return cluster;
}

Cluster with_network(Cluster cluster, double bandwidth) {
  cluster.network.bandwidth = bandwidth;
  return cluster;
}

Cluster with_devices(Cluster cluster, int devices) {
  const int per_node = devices_per_node(cluster);
  while (cluster.size() < devices) {
    Device device = cluster.devices.front();
    device.node = cluster.size() / per_node;
    if (device.node == int(cluster.nodes.size())) cluster.nodes.push_back(cluster.nodes.front());
    cluster.devices.push_back(device);
  }
  return cluster;
}

double solve(double low, double high, double target, const std::function<double(double)>& f) {
  const bool rises = f(high) > f(low);
  for (int round = 0; round < kRounds; ++round) {
    const double middle = (low + high) / 2;
    (((f(middle) < target) == rises) ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace trireme::validation
