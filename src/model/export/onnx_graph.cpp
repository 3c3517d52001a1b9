#include "model/export/onnx_graph.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kOperatorSet = 17;
static_assert(OnnxWriter::kFloat == onnx::TensorProto::FLOAT);
constexpr int64_t kFormatVersion = 8;  // the newest version that belongs to that operator set

/// Floating tensors become float32, or float64 if `precise`.
void fill(onnx::TensorProto* proto, const std::string& name, const at::Tensor& tensor, bool precise = false) {
  const at::ScalarType number = precise ? at::kDouble : at::kFloat;
  const at::Tensor plain = (tensor.is_floating_point() ? tensor.to(number) : tensor).contiguous();
  proto->set_name(name);
  switch (plain.scalar_type()) {
    case at::kFloat: proto->set_data_type(onnx::TensorProto::FLOAT); break;
    case at::kDouble: proto->set_data_type(onnx::TensorProto::DOUBLE); break;
    case at::kLong: proto->set_data_type(onnx::TensorProto::INT64); break;
    case at::kBool: proto->set_data_type(onnx::TensorProto::BOOL); break;
    default: check_internal(false, "graphs hold floats, integers and truth values");
  }
  for (int64_t size : plain.sizes()) proto->add_dims(size);
  proto->set_raw_data(plain.data_ptr(), plain.nbytes());
}

void fill(onnx::AttributeProto* proto, const std::string& name, const OnnxAttribute& value) {
  proto->set_name(name);
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    proto->set_type(onnx::AttributeProto::INT);
    proto->set_i(*integer);
  } else if (const auto* number = std::get_if<double>(&value)) {
    proto->set_type(onnx::AttributeProto::FLOAT);
    proto->set_f(float(*number));
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    proto->set_type(onnx::AttributeProto::STRING);
    proto->set_s(*text);
  } else {
    proto->set_type(onnx::AttributeProto::INTS);
    for (int64_t i : std::get<std::vector<int64_t>>(value)) proto->add_ints(i);
  }
}

}  // namespace

OnnxGraph::OnnxGraph(const TensorMap& in_file) : in_file_(in_file) {
  for (const auto& [name, tensor] : in_file) names_.insert(name);
}

std::string OnnxGraph::unique(const std::string& name) {
  std::string candidate = name;
  for (int i = 2; !names_.insert(candidate).second; ++i) candidate = fmt::format("{}_{}", name, i);
  return candidate;
}

std::string OnnxGraph::add(const char* operation, std::vector<std::string> inputs, const OnnxAttributes& attributes) {
  const std::string name = unique(fmt::format("{}/{}", layer_, operation));
  onnx::NodeProto* node = graph_.add_node();
  node->set_name(name);
  node->set_op_type(operation);
  for (std::string& input : inputs) node->add_input(std::move(input));
  node->add_output(name);
  for (const auto& [key, value] : attributes) fill(node->add_attribute(), key, value);
  return name;
}

std::string OnnxGraph::constant(const at::Tensor& value) {
  const std::string name = unique(layer_ + "/constant");
  fill(graph_.add_initializer(), name, value);
  return name;
}

std::string OnnxGraph::precise_constant(const std::vector<double>& values, const Shape& shape) {
  const std::string name = unique(layer_ + "/constant");
  fill(graph_.add_initializer(), name, at::tensor(values, at::kDouble).view(shape), /*precise=*/true);
  return name;
}

std::string OnnxGraph::weight(const std::string& name) {
  if (weights_.insert(name).second) fill(graph_.add_initializer(), name, value(name));
  return name;
}

const at::Tensor& OnnxGraph::value(const std::string& weight) const { return in_file_.at(weight); }

std::string OnnxGraph::add_layer(const Vertex& vertex, std::vector<std::string> inputs) {
  begin_layer(vertex.layer().name());
  vertex_ = &vertex;
  inputs_ = std::move(inputs);
  return vertex.layer().to_onnx(*this);
}

void OnnxGraph::begin_layer(const std::string& name) { layer_ = name; }

onnx::ModelProto OnnxGraph::finish(const std::string& name, const onnx::ValueInfoProto& input,
                                   const onnx::ValueInfoProto& output) {
  onnx::ModelProto model;
  model.set_ir_version(kFormatVersion);
  model.set_producer_name("trireme");
  model.add_opset_import()->set_version(kOperatorSet);
  graph_.set_name(name);
  *graph_.add_input() = input;
  *graph_.add_output() = output;
  *model.mutable_graph() = std::move(graph_);
  return model;
}

}  // namespace trireme
