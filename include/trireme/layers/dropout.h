// Dropout (Srivastava et al., 2014) with counter-based random numbers.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Whether an element is kept depends on seed, step, layer name, the sample's index in the global batch and the
/// element's index in the whole sample. So any sharding and any batch split draw the same mask. Kept elements are
/// scaled by 1 / (1 - p). Evaluation returns the input. Sharded along any dim (except the batch) that divides evenly.
class Dropout : public Layer {
 public:
  Dropout(std::string name, double probability);

  std::string_view kind() const override { return "dropout"; }
  Attributes attributes() const override { return {{"probability", probability_}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  double probability_;
};

}  // namespace trireme
