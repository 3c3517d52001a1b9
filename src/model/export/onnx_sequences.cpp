// Attention and LSTMs as ONNX nodes.
#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "model/export/onnx_graph.h"
#include "model/task.h"

namespace trireme {
namespace {

using Inputs = std::vector<std::string>;
using List = std::vector<int64_t>;

constexpr double kUnseen = -1e30;  // as the layers have it
constexpr int64_t kGates = 4;
constexpr int64_t kOnnxGates[kGates] = {0, 3, 1, 2};  // PyTorch's input, forget, cell, output as input, output, forget, cell

std::string parameter(OnnxGraph& g, const Vertex& v, size_t i) { return g.weight(v.parameters().at(i).name); }

std::string transposed(OnnxGraph& g, const std::string& matrix) { return g.add("Transpose", {matrix}, {{"perm", List{1, 0}}}); }

/// [n, t, e] as [n, heads, t, e / heads], or with the last two dims exchanged.
std::string by_head(OnnxGraph& g, const std::string& tensor, int64_t heads, int64_t width, bool exchanged) {
  const std::string split = g.add("Reshape", {tensor, g.constant(List{0, 0, heads, width / heads})});
  return g.add("Transpose", {split}, {{"perm", exchanged ? List{0, 2, 3, 1} : List{0, 2, 1, 3}}});
}

std::string is_padding(OnnxGraph& g, const std::string& tokens) { return g.add("Equal", {tokens, g.constant(int64_t{kPadding})}); }

// -- LSTM

/// A tensor of four gates in ONNX's order, with a dim for its directions.
at::Tensor in_onnx_order(const at::Tensor& gates) {
  const std::vector<at::Tensor> parts = gates.chunk(kGates, 0);
  std::vector<at::Tensor> order;
  for (int64_t gate : kOnnxGates) order.push_back(parts[size_t(gate)]);
  return at::cat(order).unsqueeze(0);
}

std::string add_plain_lstm(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const auto value = [&](size_t i) { return g.value(v.parameters().at(i).name); };
  const std::string input_weight = g.constant(in_onnx_order(value(0))), hidden_weight = g.constant(in_onnx_order(value(1)));
  const std::string bias = g.constant(at::cat({in_onnx_order(value(2)), in_onnx_order(value(3))}, 1));
  const std::string steps_first = g.add("Transpose", {in[0]}, {{"perm", List{1, 0, 2}}});
  const std::string y = g.add("LSTM", {steps_first, input_weight, hidden_weight, bias},
                              {{"hidden_size", v.shape().back()}, {"direction", std::string(v.flag("reverse") ? "reverse" : "forward")}});
  return g.add("Transpose", {g.add("Squeeze", {y, g.constant(List{1})})}, {{"perm", List{1, 0, 2}}});  // [steps, 1, n, hidden]
}

/// One after the other, as many as the samples have: for what ONNX's own LSTM has not, projections and padding.
class Unrolled {
 public:
  Unrolled(OnnxGraph& g, const Vertex& v, const Inputs& in) : g_(g), v_(v), steps_(v.shape()[0]) {
    const std::string rows = g.add("MatMul", {in[0], transposed(g, parameter(g, v, 0))});
    const std::string bias = g.add("Add", {parameter(g, v, 2), parameter(g, v, 3)});
    inputs_ = g.add("Add", {rows, bias});
    hidden_weight_ = transposed(g, parameter(g, v, 1));
    if (v.integer("projection") > 0) projection_ = transposed(g, parameter(g, v, 4));
    if (!v.flag("padding")) return;
    const std::string real = g.add("Cast", {g.add("Not", {is_padding(g, in[1])})}, {{"to", int64_t{onnx::TensorProto::FLOAT}}});
    real_ = g.add("Unsqueeze", {real, g.constant(List{2})});
  }

  std::string run() {
    const bool reverse = v_.flag("reverse");
    std::vector<std::string> outputs(static_cast<size_t>(steps_));
    for (int64_t k = 0; k < steps_; ++k) {
      const int64_t at = reverse ? steps_ - 1 - k : k;
      step(at);
      outputs[size_t(at)] = g_.add("Unsqueeze", {hidden_, g_.constant(List{1})});
    }
    return g_.add("Concat", outputs, {{"axis", int64_t{1}}});
  }

 private:
  std::string at_step(const std::string& sequence, int64_t at) {
    return g_.add("Gather", {sequence, g_.constant(at)}, {{"axis", int64_t{1}}});
  }

  std::string gate(const std::string& gates, int64_t i, const char* function) {
    const int64_t hidden = v_.parameters()[0].file_shape[0] / kGates;
    const List begin{i * hidden}, end{(i + 1) * hidden}, dim{1};
    return g_.add(function, {g_.add("Slice", {gates, g_.constant(begin), g_.constant(end), g_.constant(dim)})});
  }

  void step(int64_t at) {
    std::string gates = at_step(inputs_, at);
    if (!hidden_.empty()) gates = g_.add("Add", {gates, g_.add("MatMul", {hidden_, hidden_weight_})});
    const std::string fresh = g_.add("Mul", {gate(gates, 0, "Sigmoid"), gate(gates, 2, "Tanh")});
    cell_ = cell_.empty() ? fresh : g_.add("Add", {g_.add("Mul", {gate(gates, 1, "Sigmoid"), cell_}), fresh});
    hidden_ = g_.add("Mul", {gate(gates, 3, "Sigmoid"), g_.add("Tanh", {cell_})});
    if (!real_.empty()) {
      const std::string real = at_step(real_, at);
      hidden_ = g_.add("Mul", {hidden_, real});
      cell_ = g_.add("Mul", {cell_, real});
    }
    if (!projection_.empty()) hidden_ = g_.add("MatMul", {hidden_, projection_});
  }

  OnnxGraph& g_;
  const Vertex& v_;
  int64_t steps_;
  std::string inputs_, hidden_weight_, projection_, real_;  // of the whole sequence; "" where there is none
  std::string hidden_, cell_;                               // "": zeros
};

}  // namespace

std::string add_onnx_attention(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const int64_t heads = v.integer("heads"), width = v.shape().back(), queries = v.shape()[0];
  const bool fused = v.flag("fused");
  const auto input = [&](int64_t i) { return fused ? g.add("Gather", {in[0], g.constant(i)}, {{"axis", int64_t{2}}}) : in[size_t(i)]; };
  const std::string q = by_head(g, input(0), heads, width, false), k = by_head(g, input(1), heads, width, true);
  const std::string values = by_head(g, input(2), heads, width, false);
  std::string scores = g.add("Mul", {g.add("MatMul", {q, k}), g.constant(1 / std::sqrt(double(width) / double(heads)))});
  if (v.flag("padding")) {
    const std::string hidden = g.add("Unsqueeze", {is_padding(g, in.back()), g.constant(List{1, 2})});
    scores = g.add("Where", {hidden, g.constant(kUnseen), scores});
  }
  if (v.flag("causal")) {
    const std::string later = g.constant(at::ones({queries, queries}, at::kBool).triu(1));
    scores = g.add("Where", {later, g.constant(-std::numeric_limits<double>::infinity()), scores});
  }
  const std::string read = g.add("MatMul", {g.add("Softmax", {scores}, {{"axis", int64_t{-1}}}), values});
  return g.add("Reshape", {g.add("Transpose", {read}, {{"perm", List{0, 2, 1, 3}}}), g.constant(List{0, 0, width})});
}

std::string add_onnx_additive_attention(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  const std::string q = g.add("MatMul", {in[0], transposed(g, parameter(g, v, 0))});
  const std::string k = g.add("Add", {g.add("MatMul", {in[1], transposed(g, parameter(g, v, 1))}), parameter(g, v, 4)});
  const std::string energy = parameter(g, v, 2);
  const std::string length = g.add("Sqrt", {g.add("ReduceSum", {g.add("Mul", {energy, energy})})});
  const std::string direction = g.add("Mul", {energy, g.add("Div", {parameter(g, v, 3), length})});
  const std::string sums = g.add("Add", {g.add("Unsqueeze", {q, g.constant(List{2})}), g.add("Unsqueeze", {k, g.constant(List{1})})});
  std::string scores = g.add("MatMul", {g.add("Tanh", {sums}), direction});
  scores = g.add("Where", {g.add("Unsqueeze", {is_padding(g, in[2]), g.constant(List{1})}), g.constant(kUnseen), scores});
  return g.add("MatMul", {g.add("Softmax", {scores}, {{"axis", int64_t{-1}}}), in[1]});
}

std::string add_onnx_lstm(OnnxGraph& g, const Vertex& v, const Inputs& in) {
  if (v.integer("projection") > 0 || v.flag("padding")) return Unrolled(g, v, in).run();
  return add_plain_lstm(g, v, in);
}

}  // namespace trireme
