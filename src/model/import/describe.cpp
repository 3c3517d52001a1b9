#include "model/import/describe.h"

#include <fmt/format.h>

#include <set>

#include "base/text.h"
#include "model/import/script_layer.h"

namespace trireme {
namespace {

constexpr int64_t kFloatBytes = 4;
constexpr int kMostDegree = 8;  // highest degree that is tried if a layer cannot be split by the requested one

std::vector<std::string> ways(const Layer& layer, const std::vector<Shape>& inputs, int degree) {
  std::vector<std::string> names;
  for (const ShardingOption& option : layer.sharding_options(inputs, degree))
    if (option.name != "replicate") names.push_back(option.name);
  return names;
}

std::string splits_of(const Layer& layer, const std::vector<Shape>& inputs, int degree) {
  const std::vector<std::string> names = ways(layer, inputs, degree);
  if (!names.empty()) return "split by " + join(names);
  const auto* script = dynamic_cast<const torchscript::ScriptLayer*>(&layer);
  if (script != nullptr && script->is_opaque())
    return fmt::format("replicate only, because there is no rule for splitting {}", script->opaque_because());
  for (int other = 2; other <= kMostDegree; ++other)
    if (!ways(layer, inputs, other).empty())
      return fmt::format("replicate only, because no dim along which it could be split is divisible by {} (by {}: {})",
                         degree, other, join(ways(layer, inputs, other)));
  return script != nullptr
             ? "replicate only, because it mixes or folds the dims along which it could be split"
             : fmt::format("replicate only, because layers of kind {} have no split for these sizes", layer.kind());
}

}  // namespace

std::vector<LayerRow> describe_layers(const Model& model, int degree) {
  std::vector<LayerRow> rows;
  std::set<std::string> counted;
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const Node& node = model.node(id);
    const std::vector<Shape> inputs = model.input_shapes(id);
    LayerRow row{.name = node.name, .kind = std::string(node.layer->kind()), .output = node.sample_shape};
    for (const ParameterSpec& spec : node.layer->parameters())
      if (counted.insert(spec.name).second) row.parameters += element_count(spec.shape);
    row.forward_flops = node.layer->forward_flops(inputs);
    row.activation_bytes = element_count(node.sample_shape) * kFloatBytes;
    const auto* script = dynamic_cast<const torchscript::ScriptLayer*>(node.layer.get());
    row.opaque = script != nullptr && script->is_opaque();
    row.splits = splits_of(*node.layer, inputs, degree);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace trireme
