// What the exact planner has to know of a model, asked once.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/exact/request.h"

namespace trireme {

/// Numbers by node: equal where kind, attributes, shapes of inputs, output and parameters are.
std::vector<int> equal_layers(const Model& model);

struct ParameterFacts {
  double elements = 0;
  int tied = -1;  ///< number of the group of layers that share it; -1: this layer's own
};

struct LayerFacts {
  int layer_class = 0;
  std::vector<ParameterFacts> parameters;
  bool output_kept = false;  ///< from forward to backward, by itself, a consumer or a view of it
  std::vector<bool>
      copy_kept;  ///< by input: likewise, if what this layer reads is a copy of its own (moved, received, loaded)
  std::vector<bool> gradient_goes;  ///< by input: its gradient is sent to whoever made it
  std::vector<bool>
      first_in_run;  ///< by input: no earlier layer of this layer's run reads it, and it comes from outside the run
  int run = 0;       ///< consecutive layers that are recomputed together
};

/// Made for one request, which must outlive it; used by one thread.
class ModelFacts {
 public:
  explicit ModelFacts(const PlanRequest& request);

  const PlanRequest& request() const { return request_; }
  const Model& model() const { return request_.model; }
  int first_layer() const { return request_.model.input_count(); }
  int end() const { return int(layers_.size()); }
  const LayerFacts& layer(NodeId id) const { return layers_[size_t(id)]; }
  /// Of one sample's output.
  double sample_bytes(NodeId id) const { return sample_bytes_[size_t(id)]; }
  /// Layers that share a parameter, in the model's order, by group.
  const std::vector<std::vector<NodeId>>& tied() const { return tied_; }
  const std::vector<std::string>& recompute_labels() const { return labels_; }

  /// The layer's options at a tensor degree. The reference stays valid.
  const std::vector<ShardingOption>& options(NodeId id, int tensor) const;

 private:
  void find_parameters();
  void find_kept();
  void find_runs();

  const PlanRequest& request_;
  std::vector<LayerFacts> layers_;
  std::vector<double> sample_bytes_;
  std::vector<std::vector<NodeId>> tied_;
  std::vector<std::string> labels_;
  mutable std::map<std::pair<int, int>, std::vector<ShardingOption>> options_;  // by class and degree
};

}  // namespace trireme
