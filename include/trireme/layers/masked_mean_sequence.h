// MaskedMeanSequence: the mean over the positions of a sequence that are not padding.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Inputs: values [n, t, e] and tokens [n, t] (integers); output [n, e]: the mean over positions whose token is not
/// kPadding, zeros if all are. Split by "features", or by "sequence": each worker sums its positions (and reads all
/// tokens, to count them); the output is a sum.
class MaskedMeanSequence : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "masked_mean_sequence"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  std::optional<int64_t> integers_below(std::span<const Shape>, size_t index) const override {
    return index == 1 ? std::optional<int64_t>(0) : std::nullopt;
  }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
};

}  // namespace trireme
