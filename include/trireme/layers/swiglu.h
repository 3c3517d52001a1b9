// SwiGlu: the gated unit of Llama's feed-forward layers (Shazeer, "GLU Variants Improve Transformer", 2020).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Inputs: gate and value, of one shape. Output: silu(gate) * value. Sharded along any dim (except the batch) that
/// divides evenly.
class SwiGlu : public Layer {
 public:
  explicit SwiGlu(std::string name) : Layer(std::move(name)) {}

  std::string_view kind() const override { return "swiglu"; }
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
