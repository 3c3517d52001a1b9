// Costs of devices described by a datasheet: FLOPs, bytes, an efficiency curve and a launch cost. No device is
// measured.
#pragma once

#include <vector>

#include "cost/call_shapes.h"
#include "cost/layer_costs.h"
#include "trireme/cluster.h"

namespace trireme {

/// An approximation, labelled Basis::datasheet. The forward is one pass (Layer::work) under the efficiency curve of
/// trireme/cluster.h. The backward is one pass for the gradients of the inputs, if any input needs one, and one pass
/// for the gradients of the parameters, if there are any. Memory is that of Trireme's layers (Layer::memory); another
/// framework may need a different amount on that device. Communication between devices is not included.
class DatasheetCosts : public LayerCosts {
 public:
  /// `optimizer_states`: number of optimizer state tensors per weight. The model must outlive this object. Throws a
  /// user error if a device of the cluster has no speed at this precision, or is not described.
  DatasheetCosts(const Model& model, const Cluster& cluster, Precision precision, int optimizer_states);

  /// `kind` may be -1 if the cluster has only one kind of device.
  LayerCost seconds(NodeId node, const ShardingOption& option, int tensor, int64_t samples,
                    int kind = -1) const override;
  LayerMemory memory(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const override;
  /// Bytes (update_bytes_per_element) over memory bandwidth.
  double update_seconds(int64_t elements, int contributors, int kind = -1) const override;

 private:
  /// Facts of a layer that do not change from call to call.
  struct NodeFacts {
    CallInputs inputs;
    double flops_per_sample = 0;
    bool has_parameters = false;
    bool any_wanted = false;  ///< the gradient of at least one input is computed
  };
  NodeFacts facts_of(const Model& model, NodeId id, const std::vector<bool>& needs_gradient,
                     const std::vector<int64_t>& elements) const;
  size_t kind_index(int kind) const;
  CallShapes shapes(NodeId node, const ShardingOption& option, int tensor, int64_t samples) const;

  const Model& model_;
  Precision precision_;
  int optimizer_states_;
  std::vector<DeviceKind> kinds_;
  std::vector<DeviceSpeed> speeds_;  ///< by kind; zeros for a kind that no device has
  std::vector<NodeFacts> facts_;     ///< by node
  bool fused_attention_ = true;      ///< all devices have kernels for it
};

/// Bytes that LayerCosts::update_seconds() is the time of: gradients, weights and optimizer state are read; weights and
/// optimizer state are written.
double update_bytes_per_element(int optimizer_states, Precision precision, int contributors);

/// Seconds of the operators, each by the efficiency curve of trireme/cluster.h. An operator that is not a matrix
/// product or convolution computes at the peak.
double seconds_of(const OperatorWork& work, const DeviceKind& device, const DeviceSpeed& speed);

}  // namespace trireme
