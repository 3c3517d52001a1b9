// Linear: y = x w^T + b on the last dim, PyTorch's nn.Linear.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

struct LinearOptions {
  bool bias = true;
  std::string weight_name = {};  ///< empty: "<layer>.weight"; another layer's weight name ties the two
  std::string bias_name = {};    ///< empty: "<layer>.bias"
  double deviation = 0;          ///< > 0: weights start normal with this standard deviation, the bias at 0 (GPT-2's)
};

/// Parameters: weight [out, in], bias [out]; initial values uniform in ±1/sqrt(in) as PyTorch's.
/// Sharded by columns (each worker computes a share of the outputs; the input's gradient is a sum over workers) or by rows
/// (each worker reads a share of the inputs; the output is a sum): Shoeybi et al., "Megatron-LM", 2019. Inputs of two dims or
/// more per sample also by "sequence", their first one: whole parameters, whose gradients are sums over workers.
class Linear : public Layer {
 public:
  Linear(std::string name, int64_t in, int64_t out, LinearOptions options = {});

  std::string_view kind() const override { return "linear"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  void add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gy) const;

  int64_t in_, out_;
  LinearOptions options_;
};

}  // namespace trireme
