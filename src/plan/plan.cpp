#include "trireme/plan.h"
#include "base/counted.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "schedule/kinds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int kMostChanges = 3;  // changes of degrees that a description lists

/// Describes runs of consecutive layers with the same degrees: "data 4, then tensor 4 from fc1".
std::string describe_meshes(const Plan& plan, const Model& model) {
  std::string text;
  int data = -1, tensor = -1, changes = 0;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerPlan& layer = plan.layers[size_t(id)];
    if (layer.data == data && layer.tensor == tensor) continue;
    std::string mesh;
    if (layer.data > 1) mesh = fmt::format("data {}", layer.data);
    if (layer.tensor > 1) mesh += fmt::format("{}tensor {}", mesh.empty() ? "" : " x ", layer.tensor);
    if (mesh.empty() && data != -1) mesh = "one worker";
    if (!mesh.empty() && (text.empty() || ++changes <= kMostChanges))
      text += text.empty() ? mesh : fmt::format(", then {} from {}", mesh, model.node(id).name);
    data = layer.data;
    tensor = layer.tensor;
  }
  if (changes > kMostChanges) text += fmt::format(", then {} more", changes - kMostChanges);
  return text;
}

/// True if activations are only sent to higher stages. Branches on separate workers also send back to lower stages.
bool is_pipeline(const Plan& plan, const Model& model) {
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
    for (NodeId source : model.node(id).inputs)
      if (source >= model.input_count() && plan.layers[size_t(source)].stage > plan.layers[size_t(id)].stage)
        return false;
  return true;
}

std::string describe_stages(const Plan& plan, const Model& model) {
  if (plan.stages.size() == 1) return "";
  const int positions = plan.positions(), stages = int(plan.stages.size());
  if (!is_pipeline(plan, model)) return counted(stages, "stage");
  std::string text = fmt::format("pipeline {}", positions);
  if (stages > positions)
    text +=
        stages % positions == 0 ? fmt::format(" ({} chunks)", stages / positions) : fmt::format(" ({} stages)", stages);
  return text;
}

std::string describe_schedule(const Plan& plan) {
  std::string text;
  if (plan.micro_batches > 1) text += fmt::format(", {} micro-batches", plan.micro_batches);
  if (plan.schedule != usual_schedule().name) text += ", " + plan.schedule;
  if (plan.vertical_sync) text += " with vertical sync";
  return text;
}

/// Formats numbers as ranges: "0-3, 5".
std::string runs_in_words(const std::vector<int>& numbers) {
  std::vector<std::string> runs;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    runs.push_back(end - i == 1 ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[end - 1]));
    i = end;
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

std::string describe_extras(const Plan& plan) {
  std::string text;
  if (plan.optimizer_sharding != OptimizerSharding::none) text += fmt::format(", {}", name_of(plan.optimizer_sharding));
  if (plan.sharding_group > 0) text += fmt::format(" in groups of {}", plan.sharding_group);
  const auto recomputed = [](const LayerPlan& layer) { return !layer.recompute.empty(); };
  if (std::any_of(plan.layers.begin(), plan.layers.end(), recomputed))
    text += fmt::format(", recompute{}{}", plan.recompute_communication ? " with communication" : "",
                        plan.recompute_last ? "" : " except last");
  if (plan.scatter_messages) text += ", messages in slices";
  if (plan.compression.kind == Compression::Kind::bf16) text += ", bf16 gradients";
  if (plan.compression.kind == Compression::Kind::bf16_stored) text += ", stored bf16 gradients";
  if (plan.compression.kind == Compression::Kind::powersgd)
    text += fmt::format(", powersgd rank {}", plan.compression.rank);
  if (!plan.speeds.empty()) text += fmt::format(", speeds {:.3g}", fmt::join(plan.speeds, ":"));
  if (!plan.cluster_devices.empty()) text += ", on devices " + runs_in_words(plan.cluster_devices);
  return text;
}

}  // namespace

const char* name_of(OptimizerSharding sharding) {
  switch (sharding) {
    case OptimizerSharding::none: return "none";
    case OptimizerSharding::zero1: return "zero1";
    case OptimizerSharding::zero2: return "zero2";
    case OptimizerSharding::zero3: return "zero3";
  }
  return "";
}

const char* name_of(Compression::Kind kind) {
  switch (kind) {
    case Compression::Kind::none: return "none";
    case Compression::Kind::bf16: return "bf16";
    case Compression::Kind::bf16_stored: return "bf16-stored";
    case Compression::Kind::powersgd: return "powersgd";
  }
  return "";
}

Mesh Plan::mesh_of(NodeId node) const {
  const LayerPlan& layer = layers[size_t(node)];
  Mesh mesh{stages[size_t(layer.stage)], layer.data, layer.tensor};
  if (speeds.empty()) return mesh;
  std::vector<double> shares(size_t(layer.data), 0.0);
  for (size_t i = 0; i < mesh.workers.size(); ++i) shares[i / size_t(layer.tensor)] += speeds[size_t(mesh.workers[i])];
  const bool equal = std::all_of(shares.begin(), shares.end(), [&](double share) { return share == shares.front(); });
  if (!equal) mesh.shares = std::move(shares);
  return mesh;
}

int Plan::positions() const { return int(std::set<std::vector<int>>(stages.begin(), stages.end()).size()); }

Plan Plan::inner() const {
  Plan one = *this;
  one.replicas = 1;
  one.agreement.clear();
  return one;
}

bool Plan::divides_batch() const {
  return std::any_of(layers.begin(), layers.end(), [](const LayerPlan& layer) { return layer.data > 1; });
}

std::string Plan::in_short(const Model& model) const {
  std::string text = describe_meshes(*this, model);
  const std::string stages_text = describe_stages(*this, model);
  if (!stages_text.empty()) text += (text.empty() ? "" : " x ") + stages_text;
  if (text.empty()) text = "one device";
  text += describe_schedule(*this) + describe_extras(*this);
  return replicas == 1 ? text : fmt::format("{} x {}", replicas, text);
}

ShardingOption option_of(const Plan& plan, const Model& model, NodeId node) {
  const LayerPlan& layer = plan.layers[size_t(node)];
  for (ShardingOption& option : model.node(node).layer->sharding_options(model.input_shapes(node), layer.tensor))
    if (option.name == layer.split) return option;
  check_internal(false, "a validated plan names only splits that exist");
  return {};
}

Placement gradient_needed(const Placement& output) { return output.is_shard() ? output : Placement::replicate(); }

bool fills_all_shards(const Mesh& mesh, int64_t samples) {
  if (mesh.shares.empty()) return mesh.data <= samples;
  for (int d = 0; d < mesh.data; ++d)
    if (share_of(samples, mesh.shares, d).empty()) return false;
  return true;
}

}  // namespace trireme
