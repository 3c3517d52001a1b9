// A layer as the export writers see it: its inputs, its output shape and the names of its tensors.
#pragma once

#include <string>
#include <vector>

#include "trireme/model.h"

namespace trireme {

class Vertex {
 public:
  Vertex(const Model& model, NodeId id);

  const Layer& layer() const { return *node_->layer; }
  NodeId id() const { return id_; }
  const std::vector<NodeId>& inputs() const { return node_->inputs; }
  const Shape& input_shape(size_t i) const { return input_shapes_.at(i); }  ///< sample shape
  const std::vector<Shape>& input_shapes() const { return input_shapes_; }
  const Shape& shape() const { return node_->sample_shape; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<BufferSpec>& buffers() const { return buffers_; }

 private:
  const Node* node_;
  NodeId id_;
  std::vector<Shape> input_shapes_;
  std::vector<ParameterSpec> parameters_;
  std::vector<BufferSpec> buffers_;
};

/// Returns the layers that the output depends on, in order. Throws a user error if the output depends on the targets.
std::vector<Vertex> layers_before_output(const Model& model);

/// For a loss with a linear layer in it (a sampled softmax): the names of that layer's weight and bias. Its products
/// are the logits. Empty for other losses: their input is the model's output.
std::vector<std::string> linear_in_loss(const Model& model);

}  // namespace trireme
