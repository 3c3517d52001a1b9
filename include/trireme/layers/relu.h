// Relu: max(x, 0), elementwise.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Sharded along any dim (except the batch) that divides evenly.
class Relu : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "relu"; }
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
