// A model: an immutable DAG of named layers in topological order. It knows nothing of parallelism.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Tensors by name, as in weight files.
using TensorMap = std::map<std::string, at::Tensor>;

/// What a model learns. The task determines the loss at the model's end and the metrics of an evaluation.
enum class LearningTask {
  classification,  ///< logits [n, classes], target int64 [n] (mixed samples: float32 [n, classes], a share per class)
  segmentation,    ///< logits [n, classes, h, w], target int64 [n, h, w]
  language,        ///< logits [n, t, vocabulary], target int64 [n, t]: the next token
  translation,     ///< logits [n, t, vocabulary], target int64 [n, t], kPadding after the end of a sentence
  regression,      ///< output [n, values], target float32 [n, values]
};

/// "classification", ...
const char* name_of(LearningTask task);

/// Index of a vertex. Inputs come first, then layers in topological order.
using NodeId = int;

/// A vertex: a model input (`layer == nullptr`) or a layer.
struct Node {
  std::string name;
  std::shared_ptr<const Layer> layer;
  std::vector<NodeId> inputs;
  Shape sample_shape;  ///< shape of the output, without the batch dim
};

/// Values with which training starts in place of drawn ones: weights from a file or of an imported model.
struct InitialValues {
  /// Whole parameters and buffers by name, in the model's shapes, of any floating dtype. Parameters without an entry
  /// are drawn. Must not be written to.
  TensorMap tensors;
  std::string report;  ///< lines for users: the source of the values, and which tensors have none; each ends in '\n'
};

/// Returns the block that a layer belongs to, derived from the layer's name: the name up to the part that distinguishes
/// repeated pieces of a network. Such a part is
/// - a number alone: "h.0.attn.q" -> "h.0";
/// - a numbered word (layer, block, stage, transition, inception): "encoder.layers.encoder_layer_3.mlp.0" ->
///   "encoder.layers.encoder_layer_3";
/// - several of these in sequence: "layer1.0.downsample.0" -> "layer1.0".
/// Without such a part: the first word ("Mixed_5b.branch1x1.conv" -> "Mixed_5b"). A name without a dot: "".
std::string block_of(std::string_view layer_name);

/// Immutable, so thread-safe. Copies share the layers. Made by a ModelBuilder.
class Model {
 public:
  // `id`, here and below: 0 to nodes().size() - 1; not checked

  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& node(NodeId id) const { return nodes_[size_t(id)]; }
  int input_count() const { return inputs_; }  ///< nodes 0..input_count()-1 are inputs: "data", then "target"
  NodeId loss() const { return loss_; }        ///< this layer outputs one loss per sample
  NodeId output() const { return output_; }    ///< the node that the loss reads: logits

  /// The layers that read a node's output, ascending.
  const std::vector<NodeId>& consumers(NodeId id) const { return consumers_[size_t(id)]; }
  /// Returns -1 if no node has that name.
  NodeId find(std::string_view name) const;

  /// Sample shapes of a layer's inputs, in order.
  std::vector<Shape> input_shapes(NodeId id) const;
  /// Distinct parameters over all layers (tied ones once), in order of first use.
  std::vector<ParameterSpec> parameters() const;
  int64_t parameter_count() const;
  /// Buffers of all layers, in the layers' order.
  std::vector<BufferSpec> buffers() const;

  /// Null if all initial values are drawn.
  const std::shared_ptr<const InitialValues>& initial_values() const { return initial_values_; }
  /// Returns the same model with other initial values. Throws an internal error if a tensor is not one of the model's
  /// or has another shape.
  Model with_initial_values(InitialValues values) const;

  /// A hash of layer names, kinds, shapes and edges. Stored in plans.
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

/// Builds a Model vertex by vertex. Shapes are inferred at each `add`. Not thread-safe. Errors (user), with the model's
/// name and the vertex: a name that exists; besides those that each function states.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::string name);
  /// Adds an input. Errors (user): a layer was added before.
  NodeId input(std::string name, Shape sample_shape);
  /// Adds a layer that reads the outputs of `inputs`. Errors (user): a node that does not exist; the layer's errors
  /// about the shapes of its inputs.
  NodeId add(std::shared_ptr<const Layer> layer, std::vector<NodeId> inputs);
  /// Makes a layer of type L and adds it. Errors: also those of L's constructor.
  template <class L, class... Args>
  NodeId layer(std::vector<NodeId> inputs, Args&&... args) {
    return add(std::make_shared<const L>(std::forward<Args>(args)...), std::move(inputs));
  }
  /// Sample shape of a node's output. `id`: a node that was added; not checked.
  const Shape& shape(NodeId id) const { return model_.nodes_[size_t(id)].sample_shape; }
  /// Returns the model. Call it once, after all other functions. `loss` must be the last layer added; `output` is the
  /// node that the loss reads. Layers that the loss does not depend on are computed but not trained: their parameters
  /// keep their values. Errors (user): another loss node; an output that is not before it; a loss with more than one
  /// number per sample; tied parameters of different shapes.
  Model finish(NodeId output, NodeId loss);

 private:
  Model model_;
};

}  // namespace trireme
