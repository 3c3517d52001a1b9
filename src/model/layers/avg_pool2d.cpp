#include "model/layers/avg_pool2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Window AvgPool2d::rows() const {
  const AvgPool2dOptions& o = options_;
  return {.kernel = o.kernel.height, .stride = o.stride.height, .padding = o.padding.height, .ceil = o.ceil_mode};
}

Window AvgPool2d::columns() const {
  const AvgPool2dOptions& o = options_;
  return {.kernel = o.kernel.width, .stride = o.stride.width, .padding = o.padding.width, .ceil = o.ceil_mode};
}

Size2d AvgPool2d::padding(const LayerCall& call) const {
  return {is_split_by_height(call) ? 0 : options_.padding.height, options_.padding.width};
}

AvgPool2d::AvgPool2d(std::string name, AvgPool2dOptions options) : Layer(std::move(name)), options_(options) {
  const AvgPool2dOptions& o = options_;
  const bool is_positive = o.kernel.at_least(1) && o.stride.at_least(1) && o.padding.at_least(0);
  if (!is_positive || 2 * o.padding.height > o.kernel.height || 2 * o.padding.width > o.kernel.width)
    fail_shape(*this, fmt::format("kernel {}, stride {}, padding {}", to_string(o.kernel), to_string(o.stride), to_string(o.padding)),
               "kernel and stride must be positive, the padding at most half the kernel", "correct the layer's options");
}

Attributes AvgPool2d::attributes() const {
  return {{"kernel", options_.kernel.list()}, {"stride", options_.stride.list()}, {"padding", options_.padding.list()},
          {"ceil_mode", options_.ceil_mode}, {"count_include_pad", options_.count_include_pad}};
}

Shape AvgPool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  const AvgPool2dOptions& o = options_;
  if (in[1] + 2 * o.padding.height < o.kernel.height || in[2] + 2 * o.padding.width < o.kernel.width)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("it is smaller than the {}x{} window", o.kernel.height, o.kernel.width), "use larger images or fewer pools");
  return {in[0], rows().extent(in[1]), columns().extent(in[2])};
}

std::vector<ShardingOption> AvgPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 1);
  // with the halo's rows every window is whole, and there is no telling padding from them
  const bool whole_windows = !options_.ceil_mode && (options_.count_include_pad || options_.padding.height == 0);
  if (degree > 1 && whole_windows && divides_by_height(rows(), inputs[0][1], degree))
    options.push_back(height_option(1, Placement::shard(2), 0, 0, !halo_of(rows()).none()));
  return options;
}

double AvgPool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(output_shape(inputs)) * options_.kernel.area());
}

at::Tensor AvgPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const AvgPool2dOptions& o = options_;
  at::Tensor input = with_halo(call, inputs[0], halo(call), inputs[0].scalar_type(), 0);
  call.saved = {input};
  if (input.size(0) == 0)
    return empty_in_layout({0, input.size(1), rows().extent(inputs[0].size(2)), columns().extent(input.size(3))},
                           input.options());
  return in_layout(at::avg_pool2d(input, o.kernel.values(), o.stride.values(), padding(call).values(), o.ceil_mode,
                                  o.count_include_pad));
}

std::vector<at::Tensor> AvgPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const AvgPool2dOptions& o = options_;
  const at::Tensor& input = call.saved.at(0);
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient;
  if (input.size(0) == 0)
    gradient = empty_in_layout(input.sizes(), input.options());
  else
    gradient = in_layout(at::avg_pool2d_backward(in_layout(output_gradient), input, o.kernel.values(), o.stride.values(),
                                                 padding(call).values(), o.ceil_mode,
                                                 o.count_include_pad, c10::nullopt));
  send_halo_gradient(call, gradient, halo(call));
  return {receive_halo_gradient(call, gradient, halo(call))};
}

LayerMemory AvgPool2d::memory(const CallShapes& call) const { return window_memory(call, rows()); }

LayerExchanges AvgPool2d::exchanges(const CallShapes& call) const { return halo_exchanges(call, rows()); }

/// Windows that reach past the padding would count it too.
std::string AvgPool2d::to_onnx(OnnxWriter& w) const {
  const OnnxWriter::List pads = onnx_pads(rows(), columns(), w.input_shape(), w.shape());
  const bool counts = options_.count_include_pad;
  if (counts && (pads[2] > options_.padding.height || pads[3] > options_.padding.width))
    fail_export(*this, "ONNX (its windows reach past the padding)");
  return w.add("AveragePool", w.inputs(), {{"kernel_shape", options_.kernel.list()}, {"strides", options_.stride.list()}, {"pads", pads},
                                           {"count_include_pad", int64_t{counts}}});
}

void AvgPool2d::to_script(ScriptWriter& w) const {
  w.result(script_call("avg_pool2d", {w.in(), script_literal(options_.kernel.list()), script_literal(options_.stride.list()),
                                      script_literal(options_.padding.list()), script_literal(options_.ceil_mode),
                                      script_literal(options_.count_include_pad)}));
}

}  // namespace trireme
