// WeightedSum: combines several losses into one, for example those of auxiliary heads with the main one's (Szegedy et
// al., "Going Deeper with Convolutions", 2015; "Rethinking the Inception Architecture for Computer Vision", 2016).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// y = sum of weight[i] * input[i]; all inputs have one shape. An input with weight 0 is ignored and its gradient is
/// zero. The weights are `training` in training and `evaluation` otherwise, for example {1, 0.4} and {1, 0} for a main
/// and an auxiliary loss. Sharded along any dim (except the batch) that divides evenly.
class WeightedSum : public Layer {
 public:
  WeightedSum(std::string name, std::vector<double> training, std::vector<double> evaluation);

  std::string_view kind() const override { return "weighted_sum"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  OutputType output_type() const override { return OutputType::as_input; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  const std::vector<double>& weights(const LayerCall& call) const { return call.training ? training_ : evaluation_; }

  std::vector<double> training_, evaluation_;
};

}  // namespace trireme
