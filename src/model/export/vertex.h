// A layer as those see it who write a model down in another form: its kind and attributes, the names of what it reads and writes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace trireme {

class Vertex {
 public:
  Vertex(const Model& model, NodeId id);

  const Layer& layer() const { return *layer_; }
  const std::string& kind() const { return kind_; }
  NodeId id() const { return id_; }
  const std::vector<NodeId>& inputs() const { return node_->inputs; }
  const Shape& input_shape(size_t i) const { return input_shapes_.at(i); }  ///< of a sample
  const Shape& shape() const { return node_->sample_shape; }
  const std::vector<ParameterSpec>& parameters() const { return parameters_; }
  const std::vector<BufferSpec>& buffers() const { return buffers_; }

  // -- attributes, which must be there and of the type
  bool flag(const char* name) const { return get<bool>(name); }
  int64_t integer(const char* name) const { return get<int64_t>(name); }
  double number(const char* name) const { return get<double>(name); }
  const std::vector<int64_t>& list(const char* name) const { return get<std::vector<int64_t>>(name); }

 private:
  template <class T>
  const T& get(const char* name) const;

  const Node* node_;
  const Layer* layer_;
  NodeId id_;
  std::string kind_;
  Attributes attributes_;
  std::vector<Shape> input_shapes_;
  std::vector<ParameterSpec> parameters_;
  std::vector<BufferSpec> buffers_;
};

/// The layers that the output depends on, in order. User error where it depends on the targets.
std::vector<Vertex> layers_before_output(const Model& model);

/// The linear layer that is part of the loss, where the loss is a sampled softmax: the parameters' names, weight before bias. Its
/// products are the logits. Empty elsewhere: the model's output then is what is judged.
std::vector<std::string> linear_in_loss(const Model& model);

/// The user error of a layer that has no counterpart in `form`: "ONNX".
[[noreturn]] void fail_export(const Layer& layer, const char* form);

}  // namespace trireme
