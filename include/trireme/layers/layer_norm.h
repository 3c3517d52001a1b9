// LayerNorm over the last dim (Ba, Kiros, Hinton: "Layer Normalization", 2016), PyTorch's nn.LayerNorm.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct LayerNormOptions {
  double epsilon = 1e-5;
};

/// Input [n, ..., width]. Parameters weight, bias [width] in full precision; statistics are computed in float under
/// bfloat16. Split by "sequence" (the first dim of samples that have two or more dims): whole parameters, whose
/// gradients are sums over workers (Korthikanti et al., "Reducing Activation Recomputation in Large Transformer
/// Models", 2022).
class LayerNorm : public Layer {
 public:
  LayerNorm(std::string name, int64_t width, LayerNormOptions options = {})
      : Layer(std::move(name)), width_(width), options_(options) {}

  std::string_view kind() const override { return "layer_norm"; }
  Attributes attributes() const override { return {{"epsilon", options_.epsilon}}; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t width_;
  LayerNormOptions options_;
};

}  // namespace trireme
