// RmsNorm over the last dim (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019), PyTorch's nn.RMSNorm.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct RmsNormOptions {
  double epsilon = 1e-5;
};

/// x / sqrt(mean(x^2) + epsilon) * weight. Input [n, ..., width]. Parameter weight [width] in full precision; computed
/// in float under bfloat16. Split by "sequence" (the first dim of samples that have two or more dims): a whole weight,
/// whose gradient is a sum over workers.
class RmsNorm : public Layer {
 public:
  RmsNorm(std::string name, int64_t width, RmsNormOptions options = {})
      : Layer(std::move(name)), width_(width), options_(options) {}

  std::string_view kind() const override { return "rms_norm"; }
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
  RmsNormOptions options_;
};

}  // namespace trireme
