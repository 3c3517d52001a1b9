#include "plan/blocks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "plan/named.h"

namespace trireme {
namespace {

/// Describes a layer's split: "data 4 x tensor 2". A layer that is not split over its tensor axis is copied: "2
/// copies".
std::string in_words(const LayerPlan& layer) {
  const bool copies = layer.tensor > 1 && layer.split == "replicate";
  const std::string tensor = copies ? fmt::format("{} copies", layer.tensor) : fmt::format("tensor {}", layer.tensor);
  if (layer.tensor == 1) return layer.data == 1 ? "one device" : fmt::format("data {}", layer.data);
  return layer.data == 1 ? tensor : fmt::format("data {} x {}", layer.data, tensor);
}

}  // namespace

std::vector<BlockStrategy> block_strategies(const Plan& plan, const Model& model) {
  const std::vector<std::string> labels = recompute_labels(model);
  std::vector<BlockStrategy> blocks;
  std::vector<std::string> strategies;  // distinct strategies of the last block
  for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
    const LayerPlan& layer = plan.layers[size_t(id)];
    if (blocks.empty() || blocks.back().block != labels[size_t(id)] || blocks.back().stage != layer.stage) {
      blocks.push_back({.block = labels[size_t(id)], .stage = layer.stage, .strategy = ""});
      strategies.clear();
    }
    blocks.back().layers += 1;
    const std::string strategy = in_words(layer);
    if (std::find(strategies.begin(), strategies.end(), strategy) == strategies.end()) strategies.push_back(strategy);
    blocks.back().strategy = join(strategies);
  }
  return blocks;
}

}  // namespace trireme
