// PositionEmbedding: adds a learned vector per position of a sequence.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

/// y[n, t, :] = x[n, t, :] + weight[t, :]. Parameter weight [positions, width], normal(0, deviation).
/// Split by "sequence" (each worker its positions) or by "hidden".
class PositionEmbedding : public Layer {
 public:
  PositionEmbedding(std::string name, int64_t positions, int64_t width, double deviation = 0.02)
      : Layer(std::move(name)), positions_(positions), width_(width), deviation_(deviation) {}

  std::string_view kind() const override { return "position_embedding"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t positions_, width_;
  double deviation_;
};

}  // namespace trireme
