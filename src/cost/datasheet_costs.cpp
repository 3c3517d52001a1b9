#include "cost/datasheet_costs.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr NodeId kData = 0;

[[noreturn]] void fail_speed(const Cluster& cluster, const DeviceKind& kind, Precision precision) {
  std::vector<std::string> known;
  for (const auto& [name, speed] : kind.speeds) known.push_back(name);
  fail_user(
      {.where = fmt::format("cluster {}", cluster.name),
       .what = fmt::format("device {} has no speed at {}", kind.name, name_of(precision)),
       .why = fmt::format("its file gives {}", known.empty() ? "none" : join(known)),
       .next = fmt::format("add device.{}.flops.{}, or choose another precision", kind.name, name_of(precision))});
}

/// True if a layer reads this model input as integers.
bool is_integer(const Model& model, NodeId input) {
  for (NodeId consumer : model.consumers(input)) {
    const std::vector<Shape> shapes = model.input_shapes(consumer);
    const std::vector<NodeId>& inputs = model.node(consumer).inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i] == input && model.node(consumer).layer->integers_below(shapes, i)) return true;
  }
  return false;
}

/// Seconds of the device for one operator whose work takes `working` seconds.
double with_start(const DeviceKind& device, double working) { return device.start.value_or(device.launch) + working; }

/// Seconds of the device for the operators, without waiting for the host.
double device_seconds(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed) {
  if (work.operators == 0) return 0;
  const double flops = work.flops / work.operators, bytes = work.bytes / work.operators;
  double computing = flops / speed.peak_flops;
  if (work.fused_attention) computing /= device.fused_attention;
  // w / (peak * greatest * w / (w + half)), written so that w = 0 does not divide by zero.
  else if (work.multiplies) computing = (flops + speed.half_work) / (speed.peak_flops * speed.greatest_efficiency);
  const double moving = bytes / (device.memory_bandwidth * device.memory_efficiency);
  return work.operators * with_start(device, std::max(computing, moving));
}

}  // namespace

double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed) {
  return std::max(work.operators * device.launch, device_seconds(work, device, speed));
}

DatasheetCosts::DatasheetCosts(const Model& model, const Cluster& cluster, Precision precision, int optimizer_states)
    : model_(model),
      precision_(precision),
      optimizer_states_(optimizer_states),
      kinds_(cluster.kinds),
      speeds_(cluster.kinds.size()) {
  for (const Device& device : cluster.devices) {
    if (device.kind < 0)
      fail_user({.where = fmt::format("cluster {}", cluster.name),
                 .what = "a device is not described",
                 .why = "costs from datasheets need a description of each device",
                 .next = "give a cluster file, or a profile of this machine"});
    const DeviceKind& kind = kinds_.at(size_t(device.kind));
    const auto speed = kind.speeds.find(name_of(precision));
    if (speed == kind.speeds.end()) fail_speed(cluster, kind, precision);
    speeds_[size_t(device.kind)] = speed->second;
    fused_attention_ = fused_attention_ && kind.fused_attention > 0;
  }
  std::vector<bool> needs_gradient;
  std::vector<int64_t> elements;
  for (NodeId id = 0; id < NodeId(model.nodes().size()); ++id) {
    if (id < model.input_count()) {
      needs_gradient.push_back(false);
      elements.push_back(is_integer(model, id) ? 8 : id == kData ? compute_size(precision) : master_size(precision));
      facts_.emplace_back();
      continue;
    }
    facts_.push_back(facts_of(model, id, needs_gradient, elements));
    const NodeFacts& facts = facts_.back();
    const Layer& layer = *model.node(id).layer;
    needs_gradient.push_back(layer.passes_gradients() && (facts.has_parameters || facts.any_wanted));
    elements.push_back(output_element(layer, facts.inputs.elements, precision));
  }
}

DatasheetCosts::NodeFacts DatasheetCosts::facts_of(const Model& model, NodeId id,
                                                   const std::vector<bool>& needs_gradient,
                                                   const std::vector<int64_t>& elements) const {
  const Layer& layer = *model.node(id).layer;
  NodeFacts facts{.inputs = {.shapes = model.input_shapes(id), .elements = {}, .wanted = {}}};
  facts.flops_per_sample = layer.forward_flops(facts.inputs.shapes);
  facts.has_parameters = !layer.parameters().empty();
  for (NodeId input : model.node(id).inputs) {
    const bool wanted = layer.passes_gradients() && needs_gradient[size_t(input)];
    facts.inputs.wanted.push_back(wanted);
    facts.inputs.elements.push_back(elements[size_t(input)]);
    facts.any_wanted = facts.any_wanted || wanted;
  }
  return facts;
}

size_t DatasheetCosts::kind_index(int kind) const {
  check_internal(kind >= 0 || kinds_.size() == 1,
                 "costs on a cluster with several kinds of devices are requested for one kind");
  return kind < 0 ? 0 : size_t(kind);
}

CallShapes DatasheetCosts::shapes(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const {
  CallShapes call =
      call_shapes(*model_.node(node).layer, facts_.at(size_t(node)).inputs, option, tensor, samples, precision_);
  call.fused_attention = fused_attention_;
  return call;
}

LayerCost DatasheetCosts::seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                                  int kind) const {
  const size_t device = kind_index(kind);
  const NodeFacts& facts = facts_.at(size_t(node));
  LayerCost cost{.basis = Basis::datasheet};
  if (samples == 0) return cost;
  const double flops = facts.flops_per_sample * double(samples) / (option.divides_work ? tensor : 1);
  const CallShapes call = shapes(node, option, tensor, samples);
  const auto seconds_in = [&](Pass pass, Launches& launches) {
    const DeviceKind& own = kinds_.at(device);
    double sum = 0;
    for (const OperatorWork& part : call.layer->work(call, flops, pass)) {
      const double seconds = seconds_of(part, own, speeds_.at(device));
      launches.host += part.operators * own.launch;
      launches.wait += seconds - device_seconds(part, own, speeds_.at(device));
      sum += seconds;
    }
    return sum;
  };
  cost.forward = seconds_in(Pass::forward, cost.forward_launches);
  if (facts.any_wanted) cost.backward_input = seconds_in(Pass::input_gradients, cost.backward_input_launches);
  if (facts.has_parameters) cost.backward_weight = seconds_in(Pass::weight_gradients, cost.backward_weight_launches);
  cost.backward = cost.backward_input + cost.backward_weight;
  if (!model_.node(node).layer->splits_backward()) {
    cost.backward_input = cost.backward;
    cost.backward_weight = 0;
    cost.backward_input_launches += cost.backward_weight_launches;
    cost.backward_weight_launches = {};
  }
  return cost;
}

LayerMemory DatasheetCosts::memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const {
  return model_.node(node).layer->memory(shapes(node, option, tensor, samples));
}

double update_bytes_per_element(int optimizer_states, Precision precision, int contributors) {
  const double compute = double(compute_size(precision)), master = double(master_size(precision));
  const double copy = compute == master ? 0 : compute;  // write the weights in the type that layers compute with
  return double(contributors) * compute + 2 * master * (1 + optimizer_states) + copy;
}

double DatasheetCosts::update_seconds(int64_t elements, int contributors, int kind) const {
  const DeviceKind& device = kinds_.at(kind_index(kind));
  const double bytes = double(elements) * update_bytes_per_element(optimizer_states_, precision_, contributors);
  const double moving = bytes / (device.memory_bandwidth * device.memory_efficiency);
  return std::max(device.launch, with_start(device, moving));
}

}  // namespace trireme
