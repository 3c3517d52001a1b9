// A layer as the writers of other formats see it: what it reads and gives, and its tensors' names.
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
  const Shape& input_shape(size_t i) const { return input_shapes_.at(i); }  ///< of a sample
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

/// The layers that the output depends on, in order. User error where it depends on the targets.
std::vector<Vertex> layers_before_output(const Model& model);

/// The linear layer that is part of the loss, where the loss has parameters (a sampled softmax): their names, weight
/// before bias. Its products are the logits. Empty elsewhere: the model's output then is what is judged.
std::vector<std::string> linear_in_loss(const Model& model);

}  // namespace trireme
