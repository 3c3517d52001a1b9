// SoftmaxCrossEntropy: the classification loss, one value per sample.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

/// Inputs: logits [n, classes], labels [n] (int64). Output: -log softmax(logits)[label] per sample, [n], in float (double for
/// double logits). Backward gives (softmax - one-hot) * output gradient. Reports "correct": samples whose largest logit (the
/// first one among equals) is the label's. Under "vocabulary" each worker holds a share of the classes and only maxima, sums
/// and the label's logit travel (Shoeybi et al., "Megatron-LM", 2019).
/// Errors: user error naming a label outside 0 .. classes - 1.
class SoftmaxCrossEntropy : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "softmax_cross_entropy"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
};

}  // namespace trireme
