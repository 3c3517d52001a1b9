// Concat: joins inputs along one dim. It joins the branches of an Inception block.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Any number of inputs whose sample shapes differ only in dim `dim` (1: channels; 0 is the batch). Sharded along any
/// other dim (except the batch) that divides evenly. The gradients of the inputs are views of the output's gradient.
class Concat : public Layer {
 public:
  explicit Concat(std::string name, int dim = 1) : Layer(std::move(name)), dim_(dim) {}

  std::string_view kind() const override { return "concat"; }
  Attributes attributes() const override { return {{"dim", dim_}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape>) const override { return 0; }
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int dim_;
};

}  // namespace trireme
