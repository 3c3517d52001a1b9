// A graph of ONNX nodes while it is put together.
#pragma once

// the one form of the format that Debian has headers for
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "model/export/vertex.h"

namespace trireme {

using OnnxAttribute = std::variant<int64_t, double, std::string, std::vector<int64_t>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

class OnnxGraph {
 public:
  explicit OnnxGraph(const TensorMap& in_file);

  /// A node with one output, whose name is made from the operator's. An empty input is one left out.
  std::string add(const char* operation, std::vector<std::string> inputs, const OnnxAttributes& attributes = {});
  /// A tensor of the graph's own.
  std::string constant(const at::Tensor& value);
  std::string constant(const std::vector<int64_t>& values);
  std::string constant(int64_t value);  ///< of no dims
  std::string constant(double value);   ///< float, of no dims
  /// The parameter or buffer of that name.
  std::string weight(const std::string& name);
  const at::Tensor& value(const std::string& weight) const;

  /// Operators' names are made unique by the layer that they belong to.
  void begin_layer(const std::string& name);
  /// The whole, with one input and one output.
  onnx::ModelProto finish(const std::string& name, const onnx::ValueInfoProto& input, const onnx::ValueInfoProto& output);
  onnx::GraphProto& proto() { return graph_; }

 private:
  std::string unique(const std::string& name);

  const TensorMap& in_file_;
  onnx::GraphProto graph_;
  std::set<std::string> names_, weights_;
  std::string layer_;
};

/// Adds the nodes of one layer and gives the name of its output. Errors: fail_export.
std::string add_onnx_layer(OnnxGraph& graph, const Vertex& vertex, const std::vector<std::string>& inputs);

// of sequences, in onnx_sequences.cpp
std::string add_onnx_attention(OnnxGraph& graph, const Vertex& vertex, const std::vector<std::string>& inputs);
std::string add_onnx_additive_attention(OnnxGraph& graph, const Vertex& vertex, const std::vector<std::string>& inputs);
std::string add_onnx_lstm(OnnxGraph& graph, const Vertex& vertex, const std::vector<std::string>& inputs);

// of images, in onnx_images.cpp
std::string add_onnx_image_layer(OnnxGraph& graph, const Vertex& vertex, const std::vector<std::string>& inputs);
bool is_onnx_image_layer(const std::string& kind);

}  // namespace trireme
