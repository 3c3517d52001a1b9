// A graph of ONNX nodes under construction.
#pragma once

// Debian's headers exist only for this variant of the format.
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
  /// As constant(), in float64.
  std::string precise_constant(const std::vector<double>& values, const Shape& shape);

  /// Adds the nodes of one layer. Returns the name of its output. Throws fail_export's error.
  std::string add_layer(const Vertex& vertex, std::vector<std::string> inputs);
  /// Starts a layer. Its name is part of the names of its operators, which makes them unique.
  void begin_layer(const std::string& name);
  /// Returns the complete model, with one input and one output.
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
