#include "trireme/layers/max_pool2d.h"

#include <ATen/ATen.h>

#include <array>
#include <limits>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

constexpr std::array<int64_t, 2> kNoDilation{1, 1};

}  // namespace

MaxPool2d::MaxPool2d(std::string name, MaxPool2dOptions options)
    : Pool2d(std::move(name), options.kernel, options.stride, options.padding, options.ceil_mode) {
  check_sizes();
}

Attributes MaxPool2d::attributes() const {
  return {
      {"kernel", kernel_.list()}, {"stride", stride_.list()}, {"padding", padding_.list()}, {"ceil_mode", ceil_mode_}};
}

std::vector<ShardingOption> MaxPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  return pool_options(inputs[0], degree, /*by_height=*/true);
}

at::Tensor MaxPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  at::Tensor input = with_halo(call, inputs[0], halo(call), inputs[0].scalar_type(), kLeast);
  if (input.size(0) == 0) {
    call.saved = {input};
    return empty_output(inputs[0], input);
  }
  auto [output, indices] = at::max_pool2d_with_indices(input, kernel_.values(), stride_.values(),
                                                       padding(call).values(), kNoDilation, ceil_mode_);
  call.saved = {input, indices};
  return in_layout(output);
}

std::vector<at::Tensor> MaxPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved.at(0);
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient;
  if (input.size(0) == 0) gradient = empty_in_layout(input.sizes(), input.options());
  else
    gradient = in_layout(at::max_pool2d_with_indices_backward(in_layout(output_gradient), input, kernel_.values(),
                                                              stride_.values(), padding(call).values(), kNoDilation,
                                                              ceil_mode_, call.saved.at(1)));
  return {own_gradient(call, gradient)};
}

LayerMemory MaxPool2d::memory(const CallShapes& call) const {
  LayerMemory memory = window_memory(call, rows());
  memory.saved += 8 * call.output.count();  // indices
  return memory;
}

std::string MaxPool2d::to_onnx(OnnxWriter& w) const {
  return w.add("MaxPool", w.inputs(),
               {{"kernel_shape", kernel_.list()},
                {"strides", stride_.list()},
                {"pads", onnx_pads(rows(), columns(), w.input_shape(), w.shape())}});
}

void MaxPool2d::to_script(ScriptWriter& w) const {
  w.result(script_call("max_pool2d", {w.in(), script_literal(kernel_.list()), script_literal(stride_.list()),
                                      script_literal(padding_.list()), "[1, 1]", script_literal(ceil_mode_)}));
}

}  // namespace trireme
