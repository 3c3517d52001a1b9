// MeanSquaredError: the loss of regression, one value per sample.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Inputs: output and target [n, values] (real numbers). Output: per sample the mean over its values of (output -
/// target)^2, [n], in float (double for double outputs).
///
/// Reports sums over samples and values of "squared_error" and "absolute_error" (RMSE and MAE are computed from their
/// means), and for each value j "squared_error.<j>", "target.<j>" and "target_square.<j>", from which R2 = 1 -
/// squared_error / (target_square - target^2 / samples). The latter two are the sums of t and t^2 with t = target -
/// offset <j>. R2 does not depend on the offset; an offset near the mean of the targets avoids cancellation in the
/// difference.
///
/// Split by "channels", the values of a sample: the output is then a sum.
class MeanSquaredError : public Layer {
 public:
  /// `offsets`: one for each value of a sample, or empty for zeros.
  explicit MeanSquaredError(std::string name, std::vector<double> offsets = {});

  std::string_view kind() const override { return "mean_squared_error"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  OutputType output_type() const override { return OutputType::master; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  void report_sums(LayerCall& call, const at::Tensor& error, const at::Tensor& target) const;

  std::vector<double> offsets_;
};

}  // namespace trireme
