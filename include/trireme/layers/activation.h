// Activation: an elementwise function. (ReLU is a separate layer, because it saves only its output.)
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// gelu: x * Phi(x), where Phi is the normal distribution function (Hendrycks and Gimpel, 2016); PyTorch's default.
/// gelu_tanh: its approximation by tanh, as in GPT-2. silu: x * sigmoid(x). hardsigmoid: x / 6 + 1/2, clamped to 0 ..
/// 1. hardswish: x * hardsigmoid(x) (Howard et al., "Searching for MobileNetV3", 2019). relu6: x clamped to 0 .. 6.
enum class Function { gelu, gelu_tanh, tanh, sigmoid, silu, hardsigmoid, hardswish, relu6 };

/// Sharded along any dim (except the batch) that divides evenly.
class Activation : public Layer {
 public:
  Activation(std::string name, Function function) : Layer(std::move(name)), function_(function) {}

  std::string_view kind() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  Function function_;
};

}  // namespace trireme
