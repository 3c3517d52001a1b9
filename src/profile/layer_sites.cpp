#include "profile/layer_sites.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "plan/named.h"
#include "profile/probe_call.h"
#include "program/compile.h"

namespace trireme {
namespace {

/// The upper bound of the integers that layer `reader` reads from `node`. 0: it reads numbers, or has no bound.
int64_t bound_of(const Model& model, NodeId reader, NodeId node) {
  const std::vector<Shape> shapes = model.input_shapes(reader);
  int64_t below = 0;
  for (size_t i = 0; i < shapes.size(); ++i)
    if (model.node(reader).inputs[i] == node)
      below = std::max(below, model.node(reader).layer->integers_below(shapes, i).value_or(0));
  return below;
}

/// The smallest vocabulary of the layers that read tokens from `node`, directly or through layers without parameters.
/// 0: there is none.
int64_t vocabulary_of(const Model& model, NodeId node) {
  int64_t smallest = 0;
  std::vector<NodeId> open{node};
  std::set<NodeId> seen{node};
  while (!open.empty()) {
    const NodeId at = open.back();
    open.pop_back();
    for (NodeId reader : model.consumers(at)) {
      if (const int64_t words = bound_of(model, reader, at); words > 0) {
        smallest = smallest == 0 ? words : std::min(smallest, words);
      } else if (model.node(reader).layer->parameters().empty() && seen.insert(reader).second) {
        open.push_back(reader);
      }
    }
  }
  return smallest;
}

std::string text_of(const AttributeValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string text_of(const ValueKind& kind) {
  return kind.below > 0 ? fmt::format("<{}", kind.below) : std::string(c10::toString(kind.type));
}

std::string name_of(const LayerSite& site, const SiteOptions& options) {
  std::string name(site.layer->kind());
  std::vector<std::string> parts;
  for (const auto& [key, value] : site.layer->attributes()) parts.push_back(fmt::format("{}={}", key, text_of(value)));
  if (!parts.empty()) name += fmt::format("({})", fmt::join(parts, " "));
  for (size_t i = 0; i < site.inputs.size(); ++i)
    name += fmt::format(" {}:{}{}", to_string(site.input_shapes[i]), text_of(site.inputs[i]),
                        site.wants_inputs[i] ? "" : "!");
  name += " -> " + to_string(site.output_shape);
  const auto parameters = site.layer->parameters();
  for (size_t p = 0; p < parameters.size(); ++p)
    name += fmt::format("{}{}{}", p == 0 ? " with " : " ", to_string(parameters[p].shape),
                        site.wants_parameters[p] ? "" : "!");
  // the FLOPs tell losses apart, and layers that their attributes do not describe fully
  name += fmt::format(" {:.4g} FLOP", site.layer->forward_flops(site.input_shapes));
  if (!site.differentiated) name += " forward";
  if (options.batch_norm == BatchNormScope::global && site.layer->communicates_over_data_axis(options.batch_norm))
    name += " global";
  return name + " " + name_of(options.precision);
}

}  // namespace

bool is_whole(const ShardingOption& option) {
  const auto whole = [](const std::vector<Placement>& placements) {
    return std::all_of(placements.begin(), placements.end(), [](const Placement& p) { return p.is_replicate(); });
  };
  return !option.divides_work && !option.communicates_over_tensor_axis && option.output.is_replicate() &&
         whole(option.inputs) && whole(option.parameters) && whole(option.states);
}

LayerSites::LayerSites(const Model& model, SiteOptions options) : model_(&model), options_(std::move(options)) {
  const auto nodes = model.nodes().size();
  sites_.resize(nodes);
  values_.resize(nodes);
  names_.resize(nodes);
  const Plan plan = single_plan(model, 1);
  const Program program = compile(model, plan, {.batch_norm = options_.batch_norm, .frozen = options_.frozen});
  for (const Op& op : program.ops) {
    LayerSite& site = sites_[size_t(op.node)];
    site.layer = model.node(op.node).layer.get();
    site.input_shapes = model.input_shapes(op.node);
    site.output_shape = model.node(op.node).sample_shape;
    site.differentiated = program.values[size_t(op.output)].needs_gradient;
    site.is_loss = op.node == model.loss();
    for (ValueId input : op.inputs) site.wants_inputs.push_back(program.values[size_t(input)].needs_gradient);
    for (int parameter : op.parameters)
      site.wants_parameters.push_back(program.parameters[size_t(parameter)].trainable);
  }
  find_inputs();
  find_values();
}

void LayerSites::find_inputs() {
  const Model& model = *model_;
  for (NodeId id = 0; id < model.input_count(); ++id) {
    const bool is_data = id == 0;
    int64_t below = is_data ? vocabulary_of(model, id) : 0;
    if (is_data && below == 0 && options_.tokens) below = 1;
    if (!is_data)
      for (NodeId reader : model.consumers(id)) below = std::max(below, bound_of(model, reader, id));
    const auto numbers = is_data ? compute_type(options_.precision) : master_type(options_.precision);
    values_[size_t(id)] = {below > 0 ? at::kLong : numbers, below};
  }
}

void LayerSites::find_values() {
  const Model& model = *model_;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    LayerSite& site = sites_[size_t(id)];
    for (NodeId input : model.node(id).inputs) site.inputs.push_back(values_[size_t(input)]);
    values_[size_t(id)] = site.output = made_by(id);
    names_[size_t(id)] = name_of(site, options_);
  }
}

ValueKind LayerSites::made_by(NodeId id) const {
  const LayerSite& site = sites_[size_t(id)];
  const bool of_integers = !site.inputs.empty() && std::all_of(site.inputs.begin(), site.inputs.end(),
                                                               [](const ValueKind& v) { return v.below > 0; });
  if (of_integers && site.wants_parameters.empty()) {
    int64_t below = 0;
    for (const ValueKind& input : site.inputs) below = std::max(below, input.below);
    return {at::kLong, below};
  }
  // A loss is one number per sample and is computed in float or wider.
  const bool is_loss = site.output_shape.empty();
  const ValueKind numbers{is_loss ? master_type(options_.precision) : compute_type(options_.precision), 0};
  if (site.layer->passes_gradients()) return numbers;
  // The output is positions or counts; its range is taken from one sample.
  const at::Tensor shown = show_output(site, options_);
  if (shown.is_floating_point()) return {shown.scalar_type(), 0};
  return {shown.scalar_type(), shown.max().item<int64_t>() + 1};
}

std::string LayerSites::key(NodeId node, const ShardingOption& option, int tensor) const {
  const std::string& name = names_[size_t(node)];
  if (tensor == 1 || is_whole(option)) return name;
  return fmt::format("{} | {} / {}", name, option.name, tensor);
}

}  // namespace trireme
