// A model: an immutable DAG of named layers in topological order. Knows nothing of parallelism.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/layer.h"
#include "trireme/tensor_map.h"

namespace trireme {

/// Index of a vertex; inputs come first, then layers in topological order.
using NodeId = int;

/// A vertex: a model input (`layer == nullptr`) or a layer.
struct Node {
  std::string name;
  std::shared_ptr<const Layer> layer;
  std::vector<NodeId> inputs;
  Shape sample_shape;  ///< of the output, without the batch dim
};

/// What training begins with in place of drawn values: a file's weights, an imported model's.
struct InitialValues {
  /// Whole parameters and buffers by name, in the model's shapes and of any floating dtype; those without one are
  /// drawn. To be read, not written.
  TensorMap tensors;
  std::string report;  ///< lines for people: where they are from, and what was not; each ended by '\n'
};

/// The block that a layer belongs to by its name: up to what tells repeated pieces of a network apart, a number alone
/// ("h.0.attn.q" -> "h.0"), a word for a piece with a number ("encoder.layers.encoder_layer_3.mlp.0" ->
/// "encoder.layers.encoder_layer_3"; layer, block, stage, transition, inception), or several one after the other
/// ("layer1.0.downsample.0" -> "layer1.0"); else the first word
/// ("Mixed_5b.branch1x1.conv" -> "Mixed_5b"); "" without a dot.
std::string block_of(std::string_view layer_name);

class Model {
 public:
  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[size_t(id)]; }
  int input_count() const { return inputs_; }  ///< nodes 0..input_count()-1 are inputs: "data", then "target"
  NodeId loss() const { return loss_; }        ///< its output is one loss per sample
  NodeId output() const { return output_; }    ///< what the loss judges: logits

  const std::vector<NodeId>& consumers(NodeId id) const { return consumers_[size_t(id)]; }
  /// -1 when there is none of that name.
  NodeId find(std::string_view name) const;

  /// Input sample shapes of a layer, in order.
  std::vector<Shape> input_shapes(NodeId id) const;
  /// Distinct parameters over all layers (tied ones once), in order of first use.
  std::vector<ParameterSpec> parameters() const;
  int64_t parameter_count() const;
  /// Over all layers, in their order.
  std::vector<BufferSpec> buffers() const;

  /// Null where everything is drawn.
  const std::shared_ptr<const InitialValues>& initial_values() const { return initial_values_; }
  /// The same model with other initial values. Errors: internal, for a tensor that is none of the model's or of another
  /// shape.
  Model with_initial_values(InitialValues values) const;

  /// Changes when layer names, kinds, shapes or edges change; stored in plans.
  std::string fingerprint() const;

 private:
  friend class ModelBuilder;
  std::string name_;
  std::vector<Node> nodes_;
  std::vector<std::vector<NodeId>> consumers_;
  int inputs_ = 0;
  NodeId loss_ = -1, output_ = -1;
  std::shared_ptr<const InitialValues> initial_values_;
};

/// Builds a Model vertex by vertex. Names must be unique; shapes are inferred and checked at each `add`.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::string name);
  /// All inputs before the first layer.
  NodeId input(std::string name, Shape sample_shape);
  NodeId add(std::shared_ptr<const Layer> layer, std::vector<NodeId> inputs);
  template <class L, class... Args>
  NodeId layer(std::vector<NodeId> inputs, Args&&... args) {
    return add(std::make_shared<const L>(std::forward<Args>(args)...), std::move(inputs));
  }
  const Shape& shape(NodeId id) const { return model_.nodes_[size_t(id)].sample_shape; }
  /// `loss` must be the last layer added; `output` the node it judges. Tied parameters are checked for equal shapes
  /// here. Layers that the loss does not depend on are computed, but not trained: their parameters stay as they are.
  Model finish(NodeId output, NodeId loss);

 private:
  Model model_;
};

}  // namespace trireme
