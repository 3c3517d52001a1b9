// Models from published profiles: layers with shapes, weights and measured seconds.
#pragma once

#include <vector>

#include "cost/layer_costs.h"
#include "planner/graph_files/layer_profile.h"

namespace trireme::validation {

/// A model of a profile in PipeDream's format. `nodes[v]`: the node of graph layer v.
struct GraphModel {
  Model model;
  std::vector<NodeId> nodes;
};

/// `batch`: samples in the profile's measurement. Layers without a predecessor read the data. The loss reads the sink
/// that takes longest; no layer reads the outputs of other sinks.
GraphModel make_graph_model(const LayerGraph& graph, int64_t batch);

/// The profile's seconds, in proportion to samples. An update takes its bytes over the memory bandwidth, for SGD with
/// momentum.
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

/// Stages with these numbers of replicas, in the order of the data; returns the graph layers of each stage. Over all
/// topological orders tried, the cuts make the greatest load by PipeDream's formulas least
/// (planner/graph_files/pipedream.h; boundaries without cost count as sends).
std::vector<std::vector<int>> cut_for(const LayerGraph& graph, const std::vector<int>& replicas, double bandwidth);

}  // namespace trireme::validation
