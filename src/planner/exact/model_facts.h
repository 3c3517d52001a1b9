// The facts of a model that the exact planner needs, computed once.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/exact/request.h"

namespace trireme {

/// A class number per node. Numbers are equal if kind, attributes and the shapes of inputs, output and parameters are
/// equal.
std::vector<int> equal_layers(const Model& model);

struct ParameterFacts {
  double elements = 0;
  int tied = -1;  ///< group of layers that share the parameter; -1: only this layer uses it
};

struct LayerFacts {
  int layer_class = 0;
  std::vector<ParameterFacts> parameters;
  bool output_kept = false;  ///< from forward to backward: by the layer, a consumer or a view
  std::vector<bool>
      copy_kept;  ///< by input: the same, if this layer reads a copy of its own (redistributed, received, loaded)
  std::vector<bool> gradient_goes;  ///< by input: its gradient is sent to its producer
  std::vector<bool>
      first_in_run;  ///< by input: it comes from outside the layer's run, and no earlier layer of the run reads it
  int run = 0;       ///< first layer of the run: consecutive layers that are recomputed together
};

/// Made for one request, which must outlive it. Not thread-safe.
class ModelFacts {
 public:
  explicit ModelFacts(const PlanRequest& request);

  const PlanRequest& request() const { return request_; }
  const Model& model() const { return request_.model; }
  int first_layer() const { return request_.model.input_count(); }
  int end() const { return int(layers_.size()); }
  const LayerFacts& layer(NodeId id) const { return layers_[size_t(id)]; }
  /// Bytes of one sample's output.
  double sample_bytes(NodeId id) const { return sample_bytes_[size_t(id)]; }
  /// By group: the layers that share a parameter, in the model's order.
  const std::vector<std::vector<NodeId>>& tied() const { return tied_; }
  const std::vector<std::string>& recompute_labels() const { return labels_; }

  /// The layer's options at a tensor degree. The reference remains valid.
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
