#include "trireme/layers/adaptive_avg_pool2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

/// Returns the matrix [to, from] in which row i takes the mean of rows floor(i from / to) to ceil((i + 1) from / to).
at::Tensor means(int64_t from, int64_t to) {
  at::Tensor matrix = at::zeros({to, from});
  for (int64_t i = 0; i < to; ++i) {
    const int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
    matrix.select(0, i).narrow(0, begin, end - begin).fill_(1 / double(end - begin));
  }
  return matrix;
}

}  // namespace

AdaptiveAvgPool2d::AdaptiveAvgPool2d(std::string name, Size2d size) : Layer(std::move(name)), size_(size) {
  if (!size.at_least(1))
    fail_shape(*this, fmt::format("size {}", to_string(size)), "it must be positive", "correct the option");
}

Shape AdaptiveAvgPool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 3, "[channels, height, width]");
  return {inputs[0][0], size_.height, size_.width};
}

std::vector<ShardingOption> AdaptiveAvgPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, 1);
}

double AdaptiveAvgPool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(inputs[0]));
}

at::Tensor AdaptiveAvgPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& input = inputs[0];
  call.saved = {saved_shape(input)};
  if (!changes(input.sizes().vec())) return input;
  if (input.size(0) == 0) return empty_in_layout({0, input.size(1), size_.height, size_.width}, input.options());
  return in_layout(at::_adaptive_avg_pool2d(in_layout(input), size_.values()));
}

std::vector<at::Tensor> AdaptiveAvgPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  const Shape shape = restore_shape(call.saved.at(0));
  if (!changes(shape)) return {output_gradient};
  const at::Tensor like_input =
      empty_in_layout(shape, output_gradient.options());  // ATen reads only its shape and order
  if (shape[0] == 0) return {like_input};
  return {in_layout(at::_adaptive_avg_pool2d_backward(in_layout(output_gradient), like_input))};
}

LayerMemory AdaptiveAvgPool2d::memory(const CallShapes& call) const {
  const int64_t shape = shape_bytes(call.inputs[0]);
  if (call.inputs[0].shape == call.output.shape) return renamed_memory(call, shape);
  LayerMemory memory = plain_memory(call);
  memory.saved = shape;
  memory.backward_workspace = call.inputs[0].bytes();  // the tensor like the input that ATen requires
  return memory;
}

/// The windows differ in size, so the mean is two matrix products: over rows, then over columns.
std::string AdaptiveAvgPool2d::to_onnx(OnnxWriter& w) const {
  const Shape &from = w.input_shape(), &to = w.shape();
  if (from == to) return w.in();
  if (to[1] == 1 && to[2] == 1) return w.add("GlobalAveragePool", w.inputs());
  const std::string rows = w.add("MatMul", {w.constant(means(from[1], to[1])), w.in()});
  return w.add("MatMul", {rows, w.constant(means(from[2], to[2]).t())});
}

void AdaptiveAvgPool2d::to_script(ScriptWriter& w) const {
  w.result(script_call("adaptive_avg_pool2d", {w.in(), script_literal(size_.list())}));
}

}  // namespace trireme
