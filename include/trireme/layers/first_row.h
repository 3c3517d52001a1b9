// FirstRow: adds the first row of a table to every position. This is BERT's embedding of the token type if all tokens
// have type 0.
#pragma once

#include <string>
#include <vector>

#include "trireme/layers/autograd_layer.h"

namespace trireme {

/// y[n, t, :] = x[n, t, :] + weight[0, :]. Parameter "<layer>.weight" [rows, width], initially normal(0, deviation);
/// the gradients of its other rows are zero. Split by "sequence": the weight is whole, its gradient is a sum.
class FirstRow : public AutogradLayer {
 public:
  FirstRow(std::string name, int64_t rows, int64_t width, double deviation = 0.02)
      : AutogradLayer(std::move(name)), rows_(rows), width_(width), deviation_(deviation) {}

  std::string_view kind() const override { return "first_row"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape>) const override { return 0; }
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;

 protected:
  at::Tensor compute(LayerCall& call, std::span<const at::Tensor> inputs,
                     std::span<const at::Tensor> parameters) const override;

 private:
  int64_t rows_, width_;
  double deviation_;
};

}  // namespace trireme
