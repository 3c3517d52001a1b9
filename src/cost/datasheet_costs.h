// Costs on devices that are not there, from their datasheets: FLOPs, bytes, an efficiency curve and a launch cost.
#pragma once

#include <vector>

#include "cost/call_shapes.h"
#include "cost/layer_costs.h"
#include "trireme/cluster.h"

namespace trireme {

/// An approximation, labelled Basis::datasheet. Forward is one pass (Layer::work) by the curve in trireme/cluster.h;
/// backward one for the gradients of the inputs, where some input has one, and one for those of the parameters, where
/// there are any. Memory is that of this program's layers (Layer::memory), which need not be another program's on that
/// device. Talking between devices is charged by others.
class DatasheetCosts : public LayerCosts {
 public:
  /// `optimizer_states`: tensors that the optimizer keeps per weight. The model outlives this. Errors: user error where
  /// a device of the cluster has no speed at this precision, or is not described.
  DatasheetCosts(const Model& model, const Cluster& cluster, Precision precision, int optimizer_states);

  /// `kind` may be -1 where the cluster has one kind only.
  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                    int kind = -1) const override;
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override;
  /// Bytes over memory bandwidth: gradients, weights and optimizer state are read, the latter two written.
  double update_seconds(int64_t elements, int contributors, int kind = -1) const override;

 private:
  /// What does not change from call to call.
  struct NodeFacts {
    CallInputs inputs;
    double flops_per_sample = 0;
    bool has_parameters = false;
    bool any_wanted = false;  ///< some input's gradient is made
  };
  NodeFacts facts_of(const Model& model, NodeId id, const std::vector<bool>& needs_gradient,
                     const std::vector<int64_t>& elements) const;
  size_t kind_index(int kind) const;
  CallShapes shapes(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const;

  const Model& model_;
  Precision precision_;
  int optimizer_states_;
  std::vector<DeviceKind> kinds_;
  std::vector<DeviceSpeed> speeds_;  ///< by kind; of kinds that no device is of: zeros
  std::vector<NodeFacts> facts_;     ///< by node
};

/// By the curve in trireme/cluster.h, for each operator; operators that are no products compute at the peak.
double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed);

}  // namespace trireme
