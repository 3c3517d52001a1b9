#include "trireme/layers/conv_transpose2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

/// Saved tensors. The output's gradient is saved only if parameters are deferred.
enum ConvTransposeSaved { kConvTransposeInput, kConvTransposeOutputGradient };

constexpr std::array<int64_t, 2> kConvTransposeNoDilation{1, 1}, kConvTransposeNoPadding{0, 0};

}  // namespace

ConvTranspose2d::ConvTranspose2d(std::string name, ConvTranspose2dOptions options)
    : Layer(std::move(name)), options_(options) {
  const ConvTranspose2dOptions& o = options_;
  if (o.in < 1 || o.out < 1 || o.groups < 1 || !o.kernel.at_least(1) || !o.stride.at_least(1) ||
      !o.padding.at_least(0) || !o.output_padding.at_least(0))
    fail_shape(*this,
               fmt::format("in {}, out {}, kernel {}, stride {}, padding {}, output_padding {}, groups {}", o.in, o.out,
                           to_string(o.kernel), to_string(o.stride), to_string(o.padding), to_string(o.output_padding),
                           o.groups),
               "all must be positive (paddings may be 0)", "correct the layer's options");
  if (o.output_padding.height >= o.stride.height || o.output_padding.width >= o.stride.width)
    fail_shape(*this, fmt::format("output_padding {} with stride {}", to_string(o.output_padding), to_string(o.stride)),
               "it must be less than the stride", "correct the layer's options");
  if (o.in % o.groups != 0 || o.out % o.groups != 0)
    fail_shape(*this, fmt::format("{} groups", o.groups),
               fmt::format("they must divide {} input and {} output channels", o.in, o.out),
               "correct the layer's options");
}

std::vector<ParameterSpec> ConvTranspose2d::parameters() const {
  const ConvTranspose2dOptions& o = options_;
  const double bound = 1 / std::sqrt(double(o.out / o.groups * o.kernel.area()));
  const Init usual = Init::uniform(-bound, bound);
  std::vector<ParameterSpec> specs{
      {name() + ".weight", {o.in, o.out / o.groups, o.kernel.height, o.kernel.width}, o.weight_init.value_or(usual)}};
  if (o.bias) specs.push_back({name() + ".bias", {o.out}, o.bias_init.value_or(usual)});
  return specs;
}

Size2d ConvTranspose2d::extent(int64_t height, int64_t width) const {
  const ConvTranspose2dOptions& o = options_;
  return {(height - 1) * o.stride.height - 2 * o.padding.height + o.kernel.height + o.output_padding.height,
          (width - 1) * o.stride.width - 2 * o.padding.width + o.kernel.width + o.output_padding.width};
}

Attributes ConvTranspose2d::attributes() const {
  return {{"stride", options_.stride.list()},
          {"padding", options_.padding.list()},
          {"output_padding", options_.output_padding.list()},
          {"groups", options_.groups}};
}

Shape ConvTranspose2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  if (in[0] != options_.in)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("its first dim must be the {} input channels of this layer", options_.in),
               "change the layer's input channels");
  const Size2d out = extent(in[1], in[2]);
  if (!out.at_least(1))
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("padding {} removes the whole output", to_string(options_.padding)),
               "use less padding or larger images");
  return {options_.out, out.height, out.width};
}

std::vector<ShardingOption> ConvTranspose2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  const ConvTranspose2dOptions& o = options_;
  const int parameters = o.bias ? 2 : 1;
  std::vector<ShardingOption> options{replicate_option(1, parameters)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), channels = Placement::shard(1), partial = Placement::partial();
  auto held = [&](Placement weight, Placement bias) {
    return o.bias ? std::vector{weight, bias} : std::vector{weight};
  };
  const auto by_output = held(Placement::shard(1), Placement::shard(0)), by_input = held(Placement::shard(0), whole);
  const auto by_group = held(Placement::shard(0), Placement::shard(0));
  if (o.groups == 1 && o.out % degree == 0)
    options.push_back({.name = "output_channels",
                       .inputs = {whole},
                       .output = channels,
                       .input_gradients = {partial},
                       .parameters = by_output,
                       .parameter_gradients = by_output,
                       .divides_work = true});
  if (o.groups == 1 && o.in % degree == 0)
    options.push_back({.name = "input_channels",
                       .inputs = {channels},
                       .output = partial,
                       .input_gradients = {channels},
                       .parameters = by_input,
                       .parameter_gradients = by_input,
                       .divides_work = true});
  if (o.groups > 1 && o.groups % degree == 0)
    options.push_back({.name = "groups",
                       .inputs = {channels},
                       .output = channels,
                       .input_gradients = {channels},
                       .parameters = by_group,
                       .parameter_gradients = by_group,
                       .divides_work = true});
  const bool rows_are_apart =
      o.kernel.height == o.stride.height && o.padding.height == 0 && o.output_padding.height == 0;
  if (rows_are_apart && inputs[0][1] % degree == 0)
    options.push_back(height_option(1, Placement::shard(2), parameters, 0, /*communicates=*/false));
  return options;
}

double ConvTranspose2d::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(element_count(inputs[0])) * double(options_.out / options_.groups * options_.kernel.area());
}

int64_t ConvTranspose2d::local_groups(const LayerCall& call) const {
  const bool by_groups = options_.groups > 1 && call.option && call.option->output == Placement::shard(1);
  return by_groups ? options_.groups / call.tensor_degree : options_.groups;
}

/// Returns a gradient of a plain convolution with these weights, where `large` is its input and `small` its output's
/// gradient: the gradient of the input (a transposed convolution of `small`) or of the weight. Used because ATen's own
/// transposed convolution does not work in bfloat16 (libtorch 1.13).
at::Tensor ConvTranspose2d::plain_backward(const at::Tensor& small, const at::Tensor& large, const at::Tensor& weight,
                                           int64_t groups, bool of_weight) const {
  const ConvTranspose2dOptions& o = options_;
  auto [of_input, weight_gradient, bias_gradient] = at::convolution_backward(
      small, large, weight, at::OptionalIntArrayRef(), o.stride.values(), o.padding.values(), kConvTransposeNoDilation,
      /*transposed=*/false, kConvTransposeNoPadding, groups, {!of_weight, of_weight, false});
  return of_weight ? weight_gradient : of_input;
}

at::Tensor ConvTranspose2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor weight = in_layout(call.parameter(0));
  const at::Tensor input = in_layout(inputs[0].to(weight.scalar_type()));
  call.saved = {input};
  const int64_t groups = local_groups(call);
  const Size2d size = extent(input.size(2), input.size(3));
  const at::Tensor like_output =
      empty_in_layout({input.size(0), weight.size(1) * groups, size.height, size.width}, input.options());
  if (input.size(0) == 0) return like_output;
  at::Tensor output = in_layout(plain_backward(input, like_output, weight, groups, /*of_weight=*/false));
  // under "input_channels" the outputs are summed over the tensor axis, so only one worker adds the bias
  const bool add_bias = options_.bias && !(call.option && call.option->output.is_partial() && call.tensor_index != 0);
  return add_bias ? output.add_(call.parameter(1).view({1, output.size(1), 1, 1})) : output;
}

std::vector<at::Tensor> ConvTranspose2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const ConvTranspose2dOptions& o = options_;
  const at::Tensor input = call.saved.at(kConvTransposeInput);
  const at::Tensor gradient = in_layout(output_gradient.to(input.scalar_type()));
  at::Tensor input_gradient;
  if (call.wants_input_gradient(0)) {
    if (input.size(0) == 0) input_gradient = empty_in_layout(input.sizes(), input.options());
    else  // the adjoint of the adjoint: the plain convolution
      input_gradient = in_layout(at::convolution(gradient, in_layout(call.parameter(0)), c10::nullopt,
                                                 o.stride.values(), o.padding.values(), kConvTransposeNoDilation,
                                                 /*transposed=*/false, kConvTransposeNoPadding, local_groups(call)));
  }
  if (call.defer_parameters) call.saved.push_back(gradient);
  else add_parameter_gradients(call, input, gradient);
  return {input_gradient};
}

void ConvTranspose2d::backward_parameters(LayerCall& call) const {
  add_parameter_gradients(call, call.saved.at(kConvTransposeInput), call.saved.at(kConvTransposeOutputGradient));
}

void ConvTranspose2d::add_parameter_gradients(LayerCall& call, const at::Tensor& input,
                                              const at::Tensor& gradient) const {
  if (input.size(0) == 0) return add_zero_gradients(call, options_.bias ? 2 : 1);
  if (call.wants_gradient(0))
    call.add_gradient(
        0, plain_backward(input, gradient, in_layout(call.parameter(0)), local_groups(call), /*of_weight=*/true));
  if (options_.bias && call.wants_gradient(1)) call.add_gradient(1, gradient.sum(at::IntArrayRef{0, 2, 3}));
}

/// ATen's convolution_backward requires a tensor like the convolution's input.
LayerMemory ConvTranspose2d::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  memory.forward_workspace = call.output.bytes();
  memory.backward_workspace = call.parameters[0].bytes();
  return memory;
}

std::vector<OperatorWork> ConvTranspose2d::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 1, true);
}

std::string ConvTranspose2d::to_onnx(OnnxWriter& w) const {
  const Size2d& p = options_.padding;
  return w.add("ConvTranspose", w.with_parameters(w.inputs()),
               {{"strides", options_.stride.list()},
                {"pads", OnnxWriter::List{p.height, p.width, p.height, p.width}},
                {"output_padding", options_.output_padding.list()},
                {"group", options_.groups}});
}

void ConvTranspose2d::to_script(ScriptWriter& w) const {
  w.result(script_call("conv_transpose2d",
                       {w.in(), w.parameter(0), w.parameter(1), script_literal(options_.stride.list()),
                        script_literal(options_.padding.list()), script_literal(options_.output_padding.list()),
                        script_literal(options_.groups)}));
}

}  // namespace trireme
