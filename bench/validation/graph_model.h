// Models of published per-layer facts: layers that carry shapes, weights and measured seconds.
#pragma once

#include <vector>

#include "cost/layer_costs.h"
#include "planner/graph_files/layer_profile.h"

namespace trireme::validation {

/// A profile in PipeDream's format as a model. Node of graph layer v: `nodes[v]`.
struct GraphModel {
  Model model;
  std::vector<NodeId> nodes;
};

/// `batch`: samples that the profile was taken with. The layers that have no predecessor read the data; the loss reads
/// the sink that takes longest (no layer reads the results of the others).
GraphModel make_graph_model(const LayerGraph& graph, int64_t batch);

/// The profile's seconds, in proportion to samples. Updates: bytes over memory bandwidth, for SGD with momentum.
class GraphCosts final : public LayerCosts {
 public:
  GraphCosts(const GraphModel& model, const LayerGraph& graph, int64_t batch, double memory_bandwidth);
  LayerCost seconds(NodeId node, const ShardingOption&, int tensor, int64_t samples, int kind) const override;
  LayerMemory memory(NodeId, const ShardingOption&, int, int64_t) const override { return {}; }
  double update_seconds(int64_t elements, int contributors, int kind) const override;

 private:
  std::vector<double> forward_, backward_;  // per sample, by node
  double memory_bandwidth_;
};

/// Stages of so many replicas each, in the order of the data: for each stage its graph layers. Cut where the greatest
/// load by PipeDream's formulas (planner/graph_files/pipedream.h, with free boundaries counted as sends) is least:
/// along every topological order tried.
std::vector<std::vector<int>> cut_for(const LayerGraph& graph, const std::vector<int>& replicas, double bandwidth);

}  // namespace trireme::validation
