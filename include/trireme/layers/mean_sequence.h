// MeanSequence: the mean over the positions of a sequence.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// [n, t, e] to [n, e]. Split by "features", or by "sequence": each worker sums its positions; the output is a sum.
class MeanSequence : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "mean_sequence"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
};

}  // namespace trireme
