// Add: the sum of two inputs, with an optional ReLU. It joins two branches of a graph.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Both inputs have the same placement. Sharded along any dim (except the batch) that divides evenly.
class Add : public Layer {
 public:
  explicit Add(std::string name, bool relu = false) : Layer(std::move(name)), relu_(relu) {}

  std::string_view kind() const override { return relu_ ? "add_relu" : "add"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  bool relu_;
};

}  // namespace trireme
