#include "trireme/layers/avg_pool2d.h"

#include <ATen/ATen.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

AvgPool2d::AvgPool2d(std::string name, AvgPool2dOptions options)
    : Pool2d(std::move(name), options.kernel, options.stride, options.padding, options.ceil_mode),
      count_include_pad_(options.count_include_pad) {
  check_sizes();
}

Attributes AvgPool2d::attributes() const {
  return {{"kernel", kernel_.list()},
          {"stride", stride_.list()},
          {"padding", padding_.list()},
          {"ceil_mode", ceil_mode_},
          {"count_include_pad", count_include_pad_}};
}

std::vector<ShardingOption> AvgPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  // with the halo's rows every window is complete, so padding cannot be distinguished from them
  return pool_options(inputs[0], degree, /*by_height=*/!ceil_mode_ && (count_include_pad_ || padding_.height == 0));
}

at::Tensor AvgPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor input = with_halo(call, inputs[0], halo(call), inputs[0].scalar_type(), 0);
  call.saved = {input};
  if (input.size(0) == 0) return empty_output(inputs[0], input);
  return in_layout(at::avg_pool2d(input, kernel_.values(), stride_.values(), padding(call).values(), ceil_mode_,
                                  count_include_pad_));
}

std::vector<at::Tensor> AvgPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved.at(0);
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient;
  if (input.size(0) == 0) gradient = empty_in_layout(input.sizes(), input.options());
  else
    gradient = in_layout(at::avg_pool2d_backward(in_layout(output_gradient), input, kernel_.values(), stride_.values(),
                                                 padding(call).values(), ceil_mode_, count_include_pad_, c10::nullopt));
  return {own_gradient(call, gradient)};
}

LayerMemory AvgPool2d::memory(const CallShapes& call) const { return window_memory(call, rows()); }

/// ONNX would count pixels beyond the padding too, so windows that extend there cannot be exported.
std::string AvgPool2d::to_onnx(OnnxWriter& w) const {
  const OnnxWriter::List pads = onnx_pads(rows(), columns(), w.input_shape(), w.shape());
  if (count_include_pad_ && (pads[2] > padding_.height || pads[3] > padding_.width))
    fail_export(*this, "ONNX (its windows extend beyond the padding)");
  return w.add("AveragePool", w.inputs(),
               {{"kernel_shape", kernel_.list()},
                {"strides", stride_.list()},
                {"pads", pads},
                {"count_include_pad", int64_t{count_include_pad_}}});
}

void AvgPool2d::to_script(ScriptWriter& w) const {
  w.result(script_call(
      "avg_pool2d", {w.in(), script_literal(kernel_.list()), script_literal(stride_.list()),
                     script_literal(padding_.list()), script_literal(ceil_mode_), script_literal(count_include_pad_)}));
}

}  // namespace trireme
