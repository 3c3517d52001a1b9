// Softmax along one dim.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// y = exp(x) / sum of exp(x) along `dim` (1: the first dim of a sample, 0 is the batch; negative: counted from the
/// end). Sharded along any other dim (except the batch) that divides evenly. (A loss over logits is
/// SoftmaxCrossEntropy; attention has its own softmax.)
class Softmax : public Layer {
 public:
  explicit Softmax(std::string name, int dim = -1) : Layer(std::move(name)), dim_(dim) {}

  std::string_view kind() const override { return "softmax"; }
  Attributes attributes() const override { return {{"dim", dim_}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// `dim_` as a non-negative dim of tensors with the batch.
  int dim_of(size_t sample_dims) const { return dim_ < 0 ? int(sample_dims) + 1 + dim_ : dim_; }

  int dim_;
};

}  // namespace trireme
