#include "trireme/layers/conv2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/conv2d_product.h"
#include "model/layers/halo.h"
#include "trireme/error.h"

namespace trireme {

Conv2d::Conv2d(std::string name, Conv2dOptions options) : Layer(std::move(name)), options_(options) {
  const Conv2dOptions& o = options_;
  if (o.in < 1 || o.out < 1 || !o.kernel.at_least(1) || !o.stride.at_least(1) || !o.padding.at_least(0) ||
      o.groups < 1 || !o.dilation.at_least(1))
    fail_shape(
        *this,
        fmt::format("in {}, out {}, kernel {}, stride {}, padding {}, groups {}, dilation {}", o.in, o.out,
                    to_string(o.kernel), to_string(o.stride), to_string(o.padding), o.groups, to_string(o.dilation)),
        "all must be positive (padding may be 0)", "correct the layer's options");
  if (o.in % o.groups != 0 || o.out % o.groups != 0)
    fail_shape(*this, fmt::format("{} groups", o.groups),
               fmt::format("they must divide {} input and {} output channels", o.in, o.out),
               "correct the layer's options");
}

std::vector<ParameterSpec> Conv2d::parameters() const {
  const Conv2dOptions& o = options_;
  const double fan_in = double(o.in / o.groups * o.kernel.area()), fan_out = double(o.out * o.kernel.area());
  const Init usual = Init::uniform(-1 / std::sqrt(fan_in), 1 / std::sqrt(fan_in));
  const Init weight = o.he_fan_out ? Init::normal(0, std::sqrt(2 / fan_out)) : usual;
  std::vector<ParameterSpec> specs{
      {name() + ".weight", {o.out, o.in / o.groups, o.kernel.height, o.kernel.width}, o.weight_init.value_or(weight)}};
  if (o.bias) specs.push_back({name() + ".bias", {o.out}, o.bias_init.value_or(usual)});
  return specs;
}

Window Conv2d::rows() const {
  const Conv2dOptions& o = options_;
  return {o.kernel.height, o.stride.height, o.padding.height, o.dilation.height};
}

Window Conv2d::columns() const {
  const Conv2dOptions& o = options_;
  return {o.kernel.width, o.stride.width, o.padding.width, o.dilation.width};
}

Halo Conv2d::halo(const LayerCall& call) const { return is_split_by_height(call) ? halo_of(rows()) : Halo{}; }

Attributes Conv2d::attributes() const {
  return {{"stride", options_.stride.list()},
          {"padding", options_.padding.list()},
          {"dilation", options_.dilation.list()},
          {"groups", options_.groups}};
}

Shape Conv2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  if (in[0] != options_.in)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("its first dim must be the {} input channels of this layer", options_.in),
               "change the layer's input channels");
  if (in[1] + 2 * options_.padding.height < rows().span() || in[2] + 2 * options_.padding.width < columns().span())
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("with padding {} it is smaller than the {}x{} pixels that the kernel spans",
                           to_string(options_.padding), rows().span(), columns().span()),
               "use larger images, more padding or fewer strides before this layer");
  return {options_.out, rows().extent(in[1]), columns().extent(in[2])};
}

std::vector<ShardingOption> Conv2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, options_.bias ? 2 : 1)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), channels = Placement::shard(1), partial = Placement::partial();
  auto held = [&](Placement weight, Placement bias) {
    return options_.bias ? std::vector{weight, bias} : std::vector{weight};
  };
  auto by_output = held(Placement::shard(0), Placement::shard(0)), by_input = held(Placement::shard(1), whole);
  if (options_.groups == 1 && options_.out % degree == 0)
    options.push_back({.name = "output_channels",
                       .inputs = {whole},
                       .output = channels,
                       .input_gradients = {partial},
                       .parameters = by_output,
                       .parameter_gradients = by_output,
                       .divides_work = true});
  if (options_.groups == 1 && options_.in % degree == 0)
    options.push_back({.name = "input_channels",
                       .inputs = {channels},
                       .output = partial,
                       .input_gradients = {channels},
                       .parameters = by_input,
                       .parameter_gradients = by_input,
                       .divides_work = true});
  if (options_.groups > 1 && options_.groups % degree == 0)
    options.push_back({.name = "groups",
                       .inputs = {channels},
                       .output = channels,
                       .input_gradients = {channels},
                       .parameters = by_output,
                       .parameter_gradients = by_output,
                       .divides_work = true});
  if (divides_by_height(rows(), inputs[0][1], degree))
    options.push_back(height_option(1, Placement::shard(2), options_.bias ? 2 : 1, 0, !halo_of(rows()).none()));
  return options;
}

double Conv2d::forward_flops(std::span<const Shape> inputs) const {
  const double per_output = double(options_.in / options_.groups * options_.kernel.area());
  return 2.0 * per_output * double(element_count(output_shape(inputs)));
}

int64_t Conv2d::local_groups(const LayerCall& call) const {
  bool by_groups = options_.groups > 1 && call.option && call.option->output == Placement::shard(1);
  return by_groups ? options_.groups / call.tensor_degree : options_.groups;
}

Size2d Conv2d::padding(const LayerCall& call) const {
  return {is_split_by_height(call) ? 0 : options_.padding.height, options_.padding.width};
}

std::optional<ConvolutionProduct> Conv2d::as_product(LayerCall& call, const at::Tensor& input,
                                                     const at::Tensor& weight) const {
  const Conv2dOptions& o = options_;
  if (!on_host(input) || o.groups > 1 || (o.dilation != Size2d(1) && o.kernel != Size2d(1))) return {};
  const Size2d pad = padding(call);
  ConvolutionProduct product(input, weight, o.stride, pad.height, pad.width);
  if (!product.pays()) return {};
  return product;
}

at::Tensor Conv2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const Conv2dOptions& o = options_;
  const at::Tensor weight = in_layout(call.parameter(0));
  const int64_t height = inputs[0].size(2);
  at::Tensor input = with_halo(call, inputs[0], halo(call), weight.scalar_type(), 0);
  call.saved = {input};
  if (input.size(0) == 0)
    return empty_in_layout({0, weight.size(0), rows().extent(height), columns().extent(input.size(3))},
                           input.options());
  // under "input_channels" the outputs are summed over the tensor axis, so only one worker adds the bias
  bool add_bias = o.bias && !(call.option && call.option->output.is_partial() && call.tensor_index != 0);
  c10::optional<at::Tensor> bias;
  if (add_bias) bias = call.parameter(1);
  if (const auto product = as_product(call, input, weight)) return product->forward(bias);
  return in_layout(at::convolution(input, weight, bias, o.stride.values(), padding(call).values(), o.dilation.values(),
                                   /*transposed=*/false, {0, 0}, local_groups(call)));
}

std::vector<at::Tensor> Conv2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor input = call.saved.at(0);
  const bool want_input = call.wants_input_gradient(0);
  const at::Tensor gradient = in_layout(output_gradient.to(input.scalar_type()));
  at::Tensor extended;
  if (want_input) {
    extended = input_gradient(call, input, gradient);
    send_halo_gradient(call, extended, halo(call));
  }
  // overlaps with the communication of the neighbours' rows
  if (call.defer_parameters) call.saved.push_back(gradient);
  else add_parameter_gradients(call, input, gradient);
  return {want_input ? receive_halo_gradient(call, extended, halo(call)) : at::Tensor()};
}

void Conv2d::backward_parameters(LayerCall& call) const {
  add_parameter_gradients(call, call.saved.at(0), call.saved.at(1));
}

at::Tensor Conv2d::input_gradient(LayerCall& call, const at::Tensor& input, const at::Tensor& gradient) const {
  const Conv2dOptions& o = options_;
  if (input.size(0) == 0) return empty_in_layout(input.sizes(), input.options());
  const at::Tensor weight = in_layout(call.parameter(0));
  if (const auto product = as_product(call, input, weight)) return product->input_gradient(gradient);
  auto [gx, gw, gb] = at::convolution_backward(gradient, input, weight, at::OptionalIntArrayRef(), o.stride.values(),
                                               padding(call).values(), o.dilation.values(), /*transposed=*/false,
                                               {0, 0}, local_groups(call), {true, false, false});
  return in_layout(gx);
}

void Conv2d::add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gradient) const {
  const Conv2dOptions& o = options_;
  if (input.size(0) == 0) return add_zero_gradients(call, o.bias ? 2 : 1);
  const bool want_weight = call.wants_gradient(0), want_bias = o.bias && call.wants_gradient(1);
  if (!want_weight && !want_bias) return;
  const at::Tensor weight = in_layout(call.parameter(0));
  if (const auto product = as_product(call, input, weight)) {
    if (want_weight) product->weight_gradient(gradient, call, 0);
    if (want_bias) call.add_gradient(1, gradient.sum(at::IntArrayRef{0, 2, 3}));
    return;
  }
  const std::vector<int64_t> bias_sizes{weight.size(0)};
  auto [gx, gw, gb] = at::convolution_backward(
      gradient, input, weight, at::OptionalIntArrayRef(bias_sizes), o.stride.values(), padding(call).values(),
      o.dilation.values(), /*transposed=*/false, {0, 0}, local_groups(call), {false, want_weight, want_bias});
  if (want_weight) call.add_gradient(0, gw);
  if (want_bias) call.add_gradient(1, gb);
}

/// As a matrix product, with the unfolded images, if as_product() chooses one.
LayerMemory Conv2d::memory(const CallShapes& call) const {
  LayerMemory memory = window_memory(call, rows());
  const int64_t extended = halo_input_bytes(call, rows()), x = call.wanted[0] ? call.inputs[0].bytes() : 0;
  int64_t weight_gradients = 0;  // computed before they are added to the parameters' gradients
  for (const CallTensor& parameter : call.parameters) weight_gradients += parameter.bytes();
  set_backward_peak(memory, {extended + x, extended + x + weight_gradients});
  const bool is_plain = options_.groups == 1 && (options_.kernel == Size2d(1) || options_.dilation == Size2d(1));
  if (!is_plain || call.samples == 0) return memory;
  const auto type = call.compute == 2 ? at::kBFloat16 : call.compute == 8 ? at::kDouble : at::kFloat;
  const auto like = at::TensorOptions().device(at::kMeta).dtype(type).memory_format(at::MemoryFormat::ChannelsLast);
  Shape read = call.inputs[0].shape;
  const bool by_height = call.tensor > 1 && call.option->inputs[0] == Placement::shard(2);
  if (extended > 0) read[2] = read[2] * extended / call.inputs[0].bytes();
  const ConvolutionProduct product(at::empty(read, like), at::empty(call.parameters[0].shape, like), options_.stride,
                                   by_height ? 0 : options_.padding.height, options_.padding.width);
  if (!product.pays()) return memory;
  const int64_t unfolded = product.unfolded_elements() * call.compute;
  memory.forward_workspace = unfolded;
  const int64_t bias = call.parameters.size() > 1 ? call.parameters[1].bytes() : 0;
  set_backward_peak(memory, {extended + x + std::max(unfolded, bias)});
  return memory;
}

std::vector<OperatorWork> Conv2d::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 1, true);
}

LayerExchanges Conv2d::exchanges(const CallShapes& call) const { return halo_exchanges(call, rows()); }

std::string Conv2d::to_onnx(OnnxWriter& w) const {
  const Size2d& p = options_.padding;
  return w.add("Conv", w.with_parameters(w.inputs()),
               {{"strides", options_.stride.list()},
                {"pads", OnnxWriter::List{p.height, p.width, p.height, p.width}},
                {"dilations", options_.dilation.list()},
                {"group", options_.groups}});
}

void Conv2d::to_script(ScriptWriter& w) const {
  w.result(script_call("conv2d", {w.in(), w.parameter(0), w.parameter(1), script_literal(options_.stride.list()),
                                  script_literal(options_.padding.list()), script_literal(options_.dilation.list()),
                                  script_literal(options_.groups)}));
}

}  // namespace trireme
