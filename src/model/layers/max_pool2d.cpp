#include "model/layers/max_pool2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>
#include <tuple>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

constexpr std::array<int64_t, 2> kNoDilation{1, 1};

}  // namespace

Window MaxPool2d::rows() const {
  const MaxPool2dOptions& o = options_;
  return {.kernel = o.kernel.height, .stride = o.stride.height, .padding = o.padding.height, .ceil = o.ceil_mode};
}

Window MaxPool2d::columns() const {
  const MaxPool2dOptions& o = options_;
  return {.kernel = o.kernel.width, .stride = o.stride.width, .padding = o.padding.width, .ceil = o.ceil_mode};
}

Size2d MaxPool2d::padding(const LayerCall& call) const {
  return {is_split_by_height(call) ? 0 : options_.padding.height, options_.padding.width};
}

MaxPool2d::MaxPool2d(std::string name, MaxPool2dOptions options) : Layer(std::move(name)), options_(options) {
  const MaxPool2dOptions& o = options_;
  const bool is_positive = o.kernel.at_least(1) && o.stride.at_least(1) && o.padding.at_least(0);
  if (!is_positive || 2 * o.padding.height > o.kernel.height || 2 * o.padding.width > o.kernel.width)
    fail_shape(*this, fmt::format("kernel {}, stride {}, padding {}", to_string(o.kernel), to_string(o.stride), to_string(o.padding)),
               "kernel and stride must be positive, the padding at most half the kernel", "correct the layer's options");
}

Attributes MaxPool2d::attributes() const {
  return {{"kernel", options_.kernel.list()}, {"stride", options_.stride.list()}, {"padding", options_.padding.list()},
          {"ceil_mode", options_.ceil_mode}};
}

Shape MaxPool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  const MaxPool2dOptions& o = options_;
  if (in[1] + 2 * o.padding.height < o.kernel.height || in[2] + 2 * o.padding.width < o.kernel.width)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("it is smaller than the {}x{} window", o.kernel.height, o.kernel.width), "use larger images or fewer pools");
  return {in[0], rows().extent(in[1]), columns().extent(in[2])};
}

std::vector<ShardingOption> MaxPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 1);
  if (degree > 1 && divides_by_height(rows(), inputs[0][1], degree))
    options.push_back(height_option(1, Placement::shard(2), 0, 0, !halo_of(rows()).none()));
  return options;
}

double MaxPool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(output_shape(inputs)) * options_.kernel.area());
}

at::Tensor MaxPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const MaxPool2dOptions& o = options_;
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  at::Tensor input = with_halo(call, inputs[0], halo(call), inputs[0].scalar_type(), kLeast);
  if (input.size(0) == 0) {
    call.saved = {input};
    return empty_in_layout({0, input.size(1), rows().extent(inputs[0].size(2)), columns().extent(input.size(3))},
                           input.options());
  }
  auto [output, indices] = at::max_pool2d_with_indices(input, o.kernel.values(), o.stride.values(),
                                                       padding(call).values(), kNoDilation, o.ceil_mode);
  call.saved = {input, indices};
  return in_layout(output);
}

std::vector<at::Tensor> MaxPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const MaxPool2dOptions& o = options_;
  const at::Tensor& input = call.saved.at(0);
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient;
  if (input.size(0) == 0)
    gradient = empty_in_layout(input.sizes(), input.options());
  else
    gradient = in_layout(at::max_pool2d_with_indices_backward(in_layout(output_gradient), input, o.kernel.values(),
                                                              o.stride.values(), padding(call).values(), kNoDilation,
                                                              o.ceil_mode, call.saved.at(1)));
  send_halo_gradient(call, gradient, halo(call));
  return {receive_halo_gradient(call, gradient, halo(call))};
}

LayerMemory MaxPool2d::memory(const CallShapes& call) const {
  LayerMemory memory = window_memory(call, rows());
  memory.saved += 8 * call.output.count();  // indices
  return memory;
}

LayerExchanges MaxPool2d::exchanges(const CallShapes& call) const { return halo_exchanges(call, rows()); }

std::string MaxPool2d::to_onnx(OnnxWriter& w) const {
  return w.add("MaxPool", w.inputs(), {{"kernel_shape", options_.kernel.list()}, {"strides", options_.stride.list()},
                                       {"pads", onnx_pads(rows(), columns(), w.input_shape(), w.shape())}});
}

void MaxPool2d::to_script(ScriptWriter& w) const {
  w.result(script_call("max_pool2d", {w.in(), script_literal(options_.kernel.list()), script_literal(options_.stride.list()),
                                      script_literal(options_.padding.list()), "[1, 1]", script_literal(options_.ceil_mode)}));
}

}  // namespace trireme
