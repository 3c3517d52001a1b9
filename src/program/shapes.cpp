#include "program/shapes.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/error.h"

namespace trireme {
namespace {

std::string samples_of(const Model& model) {
  return fmt::format("samples of {}", to_string(model.node(0).sample_shape));
}

void check_layer(const Model& model, const Model& other, NodeId id, const std::string& where) {
  const Node &node = model.node(id), &twin = other.node(id);
  check_internal(node.name == twin.name && node.inputs == twin.inputs && node.layer->kind() == twin.layer->kind(),
                 "models for other shapes have the same graph");
  const auto own = node.layer->parameters(), others = twin.layer->parameters();
  check_internal(own.size() == others.size() && node.layer->buffers().size() == twin.layer->buffers().size(),
                 "models for other shapes have the same parameters");
  for (size_t i = 0; i < own.size(); ++i) {
    check_internal(own[i].name == others[i].name, "models for other shapes have the same parameters");
    if (own[i].shape == others[i].shape) continue;
    fail_user(
        {.where = where,
         .what = fmt::format("{} of model {} is {} for {} and {} for {}", own[i].name, model.name(),
                             to_string(own[i].shape), samples_of(model), to_string(others[i].shape), samples_of(other)),
         .why = "a parameter must not depend on the length of samples",
         .next = "remove the parameter or choose another model"});
  }
}

bool same(const ShardingOption& a, const ShardingOption& b) {
  return a.name == b.name && a.inputs == b.inputs && a.output == b.output && a.input_gradients == b.input_gradients &&
         a.parameters == b.parameters && a.parameter_gradients == b.parameter_gradients && a.buffers == b.buffers &&
         a.states == b.states && a.communicates_over_tensor_axis == b.communicates_over_tensor_axis;
}

void check_split(const Op& op, const Model& other, const std::string& where) {
  const Node& node = other.node(op.node);
  const auto options = node.layer->sharding_options(other.input_shapes(op.node), op.mesh.tensor);
  if (std::any_of(options.begin(), options.end(),
                  [&](const ShardingOption& option) { return same(option, op.option); }))
    return;
  fail_user(
      {.where = where,
       .what = fmt::format("layer {} is split by \"{}\" over {} workers", node.name, op.option.name, op.mesh.tensor),
       .why = fmt::format("{} cannot be split this way", samples_of(other)),
       .next = fmt::format("use a multiple of {}, or a plan that splits it differently", op.mesh.tensor)});
}

}  // namespace

void check_runs(const Program& program, const Model& model, const Model& other, const std::string& where) {
  check_internal(model.nodes().size() == other.nodes().size() && model.input_count() == other.input_count(),
                 "models for other shapes have the same graph");
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) check_layer(model, other, id, where);
  for (const Op& op : program.ops) check_split(op, other, where);
}

}  // namespace trireme
