#include "trireme/layers/activation.h"

#include <ATen/ATen.h>

#include <cmath>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kRelu6Top = 6, kHardSlope = 1.0 / 6, kHardReach = 3;

/// True if the gradient is computed from the output; false: from the input.
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

/// `kept`: the output or the input, see keeps_output.
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

/// x / 2 (1 + erf(x / sqrt 2)).
std::string onnx_gelu(OnnxWriter& w) {
  const std::string erf = w.add("Erf", {w.add("Mul", {w.in(), w.constant(std::sqrt(0.5))})});
  return w.add("Mul", {w.add("Mul", {w.in(), w.constant(0.5)}), w.add("Add", {erf, w.constant(1.0)})});
}

/// x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
std::string onnx_gelu_tanh(OnnxWriter& w) {
  const std::string cube = w.add("Mul", {w.add("Mul", {w.add("Mul", {w.in(), w.in()}), w.in()}), w.constant(0.044715)});
  const std::string tanh =
      w.add("Tanh", {w.add("Mul", {w.add("Add", {w.in(), cube}), w.constant(std::sqrt(2 / M_PI))})});
  return w.add("Mul", {w.add("Mul", {w.in(), w.constant(0.5)}), w.add("Add", {tanh, w.constant(1.0)})});
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

/// Functions with two bounds create three masks and the product with the slope in backward.
LayerMemory Activation::memory(const CallShapes& call) const {
  if (keeps_output(function_)) return keeping_output(call);
  LayerMemory memory = keeping_input(call);
  if (function_ != Function::hardsigmoid && function_ != Function::relu6) return memory;
  const CallTensor& x = call.inputs[0];
  set_backward_peak(memory, {3 * x.count() + 2 * x.bytes()});
  return memory;
}

std::string Activation::to_onnx(OnnxWriter& w) const {
  switch (function_) {
    case Function::gelu: return onnx_gelu(w);
    case Function::gelu_tanh: return onnx_gelu_tanh(w);
    case Function::tanh: return w.add("Tanh", w.inputs());
    case Function::sigmoid: return w.add("Sigmoid", w.inputs());
    case Function::silu: return w.add("Mul", {w.in(), w.add("Sigmoid", w.inputs())});
    case Function::hardsigmoid: return w.add("HardSigmoid", w.inputs(), {{"alpha", kHardSlope}, {"beta", 0.5}});
    case Function::hardswish: return w.add("HardSwish", w.inputs());
    case Function::relu6: return w.add("Clip", {w.in(), w.constant(0.0), w.constant(kRelu6Top)});
  }
  return Layer::to_onnx(w);
}

void Activation::to_script(ScriptWriter& w) const {
  switch (function_) {
    case Function::gelu_tanh: return w.result(script_call("gelu", {w.in(), "approximate=\"tanh\""}));
    case Function::relu6: return w.result(script_call("clamp", {w.in(), "0", "6"}));
    default: return w.result(script_call(std::string(kind()).c_str(), {w.in()}));
  }
}

}  // namespace trireme
