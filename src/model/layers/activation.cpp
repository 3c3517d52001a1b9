#include "model/layers/activation.h"

#include <ATen/ATen.h>

#include "base/error.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

bool is_gelu(Function function) { return function == Function::gelu || function == Function::gelu_tanh; }
const char* approximation(Function function) { return function == Function::gelu_tanh ? "tanh" : "none"; }

}  // namespace

std::string_view Activation::kind() const {
  switch (function_) {
    case Function::gelu: return "gelu";
    case Function::gelu_tanh: return "gelu_tanh";
    case Function::tanh: return "tanh";
    case Function::sigmoid: return "sigmoid";
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
  if (is_gelu(function_)) {
    call.saved = {inputs[0]};
    return at::gelu(inputs[0], approximation(function_));
  }
  at::Tensor output = function_ == Function::tanh ? at::tanh(inputs[0]) : at::sigmoid(inputs[0]);
  call.saved = {output};
  return output;
}

std::vector<at::Tensor> Activation::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  const at::Tensor& saved = call.saved.at(0);
  if (is_gelu(function_)) return {at::gelu_backward(output_gradient, saved, approximation(function_))};
  return {function_ == Function::tanh ? at::tanh_backward(output_gradient, saved) : at::sigmoid_backward(output_gradient, saved)};
}

}  // namespace trireme
