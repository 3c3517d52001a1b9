// Linear: y = x w^T + b on the last dim, PyTorch's nn.Linear.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct LinearOptions {
  bool bias = true;
  std::string weight_name = {};  ///< empty: "<layer>.weight"; the name of another layer's weight ties the two
  std::string bias_name = {};    ///< empty: "<layer>.bias"
  double deviation = 0;  ///< > 0: initial weights are normal with this standard deviation, the bias is 0 (GPT-2's)
  std::optional<Init> weight_init = {}, bias_init = {};  ///< in place of these defaults
  /// > 0: this number of linear layers of one input in one layer, for example queries, keys and values: weight [parts,
  /// out, in], bias [parts, out], output [..., parts, out]. The values have the same order in memory as PyTorch's
  /// [parts * out, in]. The parts are a separate dim so that a share of the columns is a share of each part (of whole
  /// heads).
  int64_t parts = 0;
  bool transposed = false;  ///< weight [in, out] ([in, parts, out]), as in GPT-2's Conv1D
  /// True if the loss does not depend on the bias: the gradient is set to zero, not to the rounding error of a sum.
  /// Example: the bias of attention's keys adds the same to all scores of a query, which the softmax cancels.
  bool idle_bias = false;
};

/// Parameters: weight [out, in], bias [out] (the options change this); initially uniform in ±1/sqrt(in) as PyTorch's.
/// Sharded by columns (each worker computes a share of the outputs; the input's gradient is a sum over workers) or by
/// rows (each worker reads a share of the inputs; the output is a sum): Shoeybi et al., "Megatron-LM", 2019. Inputs
/// with two or more dims per sample also by "sequence", the first of these dims: whole parameters, whose gradients are
/// sums over workers.
class Linear : public Layer {
 public:
  Linear(std::string name, int64_t in, int64_t out, LinearOptions options = {});

  std::string_view kind() const override { return "linear"; }
  Attributes attributes() const override { return {{"parts", options_.parts}, {"transposed", options_.transposed}}; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool restores() const override { return true; }  // the input
  void restore(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  /// The dim of output features in the weight, including the dim of the parts.
  int output_dim() const { return (options_.parts > 0) + int(options_.transposed); }
  int input_dim() const { return options_.transposed ? 0 : 1 + (options_.parts > 0); }
  /// Returns a weight-like tensor as [in, all outputs], without a copy.
  at::Tensor as_columns(const at::Tensor& weight) const;
  Shape outputs(const Shape& input, int64_t out) const;
  void add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gy) const;

  int64_t in_, out_;
  LinearOptions options_;
};

}  // namespace trireme
