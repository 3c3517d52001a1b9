#include "model/layers/activation.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

constexpr double kRelu6Top = 6, kHardSlope = 1.0 / 6, kHardReach = 3;

/// Whether the gradient is a function of the output; else it is one of the input.
bool keeps_output(Function function) { return function == Function::tanh || function == Function::sigmoid; }

at::Tensor value(Function function, const at::Tensor& x) {
  switch (function) {
    case Function::gelu: return at::gelu(x, "none");
    case Function::gelu_tanh: return at::gelu(x, "tanh");
    case Function::tanh: return at::tanh(x);
    case Function::sigmoid: return at::sigmoid(x);
    case Function::silu: return at::silu(x);
    case Function::hardsigmoid: return at::hardsigmoid(x);
    case Function::hardswish: return at::hardswish(x);
    case Function::relu6: return at::hardtanh(x, 0, kRelu6Top);
  }
  check_internal(false, "an activation function without a value");
  return {};
}

/// gradient * slope where low < x < high, else 0.
at::Tensor between(const at::Tensor& gradient, const at::Tensor& x, double low, double high, double slope) {
  return at::mul(gradient, at::logical_and(x.gt(low), x.lt(high)).to(gradient.scalar_type()).mul_(slope));
}

/// `kept`: the output or the input, as keeps_output says.
at::Tensor derivative(Function function, const at::Tensor& gradient, const at::Tensor& kept) {
  switch (function) {
    case Function::gelu: return at::gelu_backward(gradient, kept, "none");
    case Function::gelu_tanh: return at::gelu_backward(gradient, kept, "tanh");
    case Function::tanh: return at::tanh_backward(gradient, kept);
    case Function::sigmoid: return at::sigmoid_backward(gradient, kept);
    case Function::silu: return at::silu_backward(gradient, kept);
    case Function::hardsigmoid: return between(gradient, kept, -kHardReach, kHardReach, kHardSlope);
    case Function::hardswish: return at::hardswish_backward(gradient, kept);
    case Function::relu6: return between(gradient, kept, 0, kRelu6Top, 1);
  }
  check_internal(false, "an activation function without a derivative");
  return {};
}

}  // namespace

std::string_view Activation::kind() const {
  switch (function_) {
    case Function::gelu: return "gelu";
    case Function::gelu_tanh: return "gelu_tanh";
    case Function::tanh: return "tanh";
    case Function::sigmoid: return "sigmoid";
    case Function::silu: return "silu";
    case Function::hardsigmoid: return "hardsigmoid";
    case Function::hardswish: return "hardswish";
    case Function::relu6: return "relu6";
  }
  check_internal(false, "an activation function without a name");
  return "";
}

Shape Activation::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  return inputs[0];
}

std::vector<ShardingOption> Activation::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
}

double Activation::forward_flops(std::span<const Shape> inputs) const { return 8.0 * double(element_count(inputs[0])); }

at::Tensor Activation::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor output = value(function_, inputs[0]);
  call.saved = {keeps_output(function_) ? output : inputs[0]};
  return output;
}

std::vector<at::Tensor> Activation::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  return {derivative(function_, output_gradient, call.saved.at(0))};
}

}  // namespace trireme
