// Layers of features and sequences, and the choice among all, as ONNX nodes.
#include <ATen/ATen.h>

#include <cmath>
#include <functional>
#include <map>

#include "model/export/onnx_graph.h"
#include "model/task.h"

namespace trireme {
namespace {

using Inputs = std::vector<std::string>;
using Adder = std::function<std::string(OnnxGraph&, const Vertex&, const Inputs&)>;

std::string parameter(OnnxGraph& g, const Vertex& v, size_t i) { return g.weight(v.parameters().at(i).name); }

std::string add_linear(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  std::string weight = parameter(g, v, 0);
  if (!v.flag("transposed")) weight = g.add("Transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}});
  std::string y = g.add("MatMul", {in[0], weight});
  if (v.parameters().size() > 1) y = g.add("Add", {y, parameter(g, v, 1)});
  const int64_t parts = v.integer("parts");
  if (parts == 0) return y;
  std::vector<int64_t> sizes(v.input_shape(0).size(), 0);  // 0: as it is
  sizes.insert(sizes.end(), {parts, v.shape().back()});
  return g.add("Reshape", {y, g.constant(sizes)});
}

/// x / 2 (1 + erf(x / sqrt 2)).
std::string add_gelu(OnnxGraph& g, const Vertex&, const Inputs& in) {
  const std::string erf = g.add("Erf", {g.add("Mul", {in[0], g.constant(std::sqrt(0.5))})});
  return g.add("Mul", {g.add("Mul", {in[0], g.constant(0.5)}), g.add("Add", {erf, g.constant(1.0)})});
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
std::string add_gelu_tanh(OnnxGraph& g, const Vertex&, const Inputs& in) {
  const std::string cube = g.add("Mul", {g.add("Mul", {g.add("Mul", {in[0], in[0]}), in[0]}), g.constant(0.044715)});
  const std::string tanh = g.add("Tanh", {g.add("Mul", {g.add("Add", {in[0], cube}), g.constant(std::sqrt(2 / M_PI))})});
  return g.add("Mul", {g.add("Mul", {in[0], g.constant(0.5)}), g.add("Add", {tanh, g.constant(1.0)})});
}

std::string add_layer_norm(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  return g.add("LayerNormalization", {in[0], parameter(g, v, 0), parameter(g, v, 1)},
               {{"axis", int64_t{-1}}, {"epsilon", v.number("epsilon")}});
}

/// Weights of the average: 1 / number of real tokens, 0 for the others.
std::string add_masked_mean(OnnxGraph& g, const Vertex&, const Inputs& in) {
  const std::string real = g.add("Cast", {g.add("Not", {g.add("Equal", {in[1], g.constant(int64_t{kPadding})})})},
                                 {{"to", int64_t{onnx::TensorProto::FLOAT}}});
  const std::string count = g.add("Max", {g.add("ReduceSum", {real, g.constant(std::vector<int64_t>{1})}), g.constant(1.0)});
  const std::string weights = g.add("Unsqueeze", {g.add("Div", {real, count}), g.constant(std::vector<int64_t>{1})});
  return g.add("Squeeze", {g.add("MatMul", {weights, in[0]}), g.constant(std::vector<int64_t>{1})});
}

std::string add_position_embedding(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const std::vector<int64_t> first{0}, end{v.shape()[0]}, dim{v.flag("batch_dim") ? 1 : 0};
  const std::string rows = g.add("Slice", {parameter(g, v, 0), g.constant(first), g.constant(end), g.constant(dim)});
  return g.add("Add", {in[0], rows});
}

std::string add_class_token(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const std::string samples = g.add("Shape", {in[0]}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  const std::string sizes = g.add("Concat", {samples, g.constant(std::vector<int64_t>{1, v.shape().back()})}, {{"axis", int64_t{0}}});
  return g.add("Concat", {g.add("Expand", {parameter(g, v, 0), sizes}), in[0]}, {{"axis", int64_t{1}}});
}

std::string add_slice(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const std::vector<int64_t> begin{v.integer("begin")}, end{v.integer("end")}, dim{v.integer("dim")};
  return g.add("Slice", {in[0], g.constant(begin), g.constant(end), g.constant(dim)});
}

/// Of kinds that are one node without attributes.
Adder one(const char* operation) {
  return [operation](OnnxGraph& g, const Vertex&, const Inputs& in) { return g.add(operation, in); };
}

Adder gather(int64_t axis, const std::function<int64_t(const Vertex&)>& index) {
  return [=](OnnxGraph& g, const Vertex& v, const Inputs& in) { return g.add("Gather", {in[0], g.constant(index(v))}, {{"axis", axis}}); };
}

const std::map<std::string, Adder>& adders() {
  static const std::map<std::string, Adder> all{
      {"add", one("Add")},
      {"add_relu", [](OnnxGraph& g, const Vertex&, const Inputs& in) { return g.add("Relu", {g.add("Add", in)}); }},
      {"additive_attention", add_onnx_additive_attention},
      {"attention", add_onnx_attention},
      {"class_token", add_class_token},
      {"concat", [](OnnxGraph& g, const Vertex& v, const Inputs& in) { return g.add("Concat", in, {{"axis", v.integer("dim")}}); }},
      {"dropout", [](OnnxGraph&, const Vertex&, const Inputs& in) { return in[0]; }},
      {"embedding", [](OnnxGraph& g, const Vertex& v, const Inputs& in) { return g.add("Gather", {parameter(g, v, 0), in[0]}); }},
      {"first_row",
       [](OnnxGraph& g, const Vertex& v, const Inputs& in) {
         return g.add("Add", {in[0], g.add("Gather", {parameter(g, v, 0), g.constant(int64_t{0})})});
       }},
      {"flatten", [](OnnxGraph& g, const Vertex&, const Inputs& in) { return g.add("Flatten", in, {{"axis", int64_t{1}}}); }},
      {"gelu", add_gelu},
      {"gelu_tanh", add_gelu_tanh},
      {"hardsigmoid",
       [](OnnxGraph& g, const Vertex&, const Inputs& in) { return g.add("HardSigmoid", in, {{"alpha", 1.0 / 6}, {"beta", 0.5}}); }},
      {"hardswish", one("HardSwish")},
      {"layer_norm", add_layer_norm},
      {"linear", add_linear},
      {"lstm", add_onnx_lstm},
      {"masked_mean_sequence", add_masked_mean},
      {"mean_sequence",
       [](OnnxGraph& g, const Vertex&, const Inputs& in) {
         return g.add("ReduceMean", in, {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
       }},
      {"position_embedding", add_position_embedding},
      {"relu", one("Relu")},
      {"relu6", [](OnnxGraph& g, const Vertex&, const Inputs& in) { return g.add("Clip", {in[0], g.constant(0.0), g.constant(6.0)}); }},
      {"select_position", gather(1, [](const Vertex& v) { return v.integer("index"); })},
      {"sigmoid", one("Sigmoid")},
      {"silu", [](OnnxGraph& g, const Vertex&, const Inputs& in) { return g.add("Mul", {in[0], g.add("Sigmoid", in)}); }},
      {"slice", add_slice},
      {"softmax", [](OnnxGraph& g, const Vertex& v, const Inputs& in) { return g.add("Softmax", in, {{"axis", v.integer("dim")}}); }},
      {"stateful_lstm", add_onnx_lstm},
      {"tanh", one("Tanh")},
  };
  return all;
}

}  // namespace

std::string add_onnx_layer(OnnxGraph& graph, const Vertex& vertex, const Inputs& inputs) {
  graph.begin_layer(vertex.layer().name());
  if (is_onnx_image_layer(vertex.kind())) return add_onnx_image_layer(graph, vertex, inputs);
  const auto found = adders().find(vertex.kind());
  if (found == adders().end()) fail_export(vertex.layer(), "ONNX");
  return found->second(graph, vertex, inputs);
}

}  // namespace trireme
