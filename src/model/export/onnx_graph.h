// A graph of ONNX nodes while it is put together.
#pragma once

// the one form of the format that Debian has headers for
#define ONNX_ML 1
#include <onnx/onnx_pb.h>

#include <ATen/core/Tensor.h>

#include <set>
#include <string>
#include <vector>

#include "model/export/writers.h"

namespace trireme {

class OnnxGraph final : public OnnxWriter {
 public:
  explicit OnnxGraph(const TensorMap& in_file);

  std::string add(const char* operation, std::vector<std::string> inputs,
                  const OnnxAttributes& attributes = {}) override;
  using OnnxWriter::constant;
  std::string constant(const at::Tensor& value) override;
  std::string weight(const std::string& name) override;

  /// Adds the nodes of one layer and gives the name of its output. Errors: fail_export.
  std::string add_layer(const Vertex& vertex, std::vector<std::string> inputs);
  /// Operators' names are made unique by the layer that they belong to.
  void begin_layer(const std::string& name);
  /// The whole, with one input and one output.
  onnx::ModelProto finish(const std::string& name, const onnx::ValueInfoProto& input,
                          const onnx::ValueInfoProto& output);
  onnx::GraphProto& proto() { return graph_; }

 private:
  const at::Tensor& value(const std::string& weight) const override;
  std::string unique(const std::string& name);

  const TensorMap& in_file_;
  onnx::GraphProto graph_;
  std::set<std::string> names_, weights_;
  std::string layer_;
};

}  // namespace trireme
