// Conv2d: PyTorch's nn.Conv2d with square kernels.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

struct Conv2dOptions {
  int64_t in = 1, out = 1, kernel = 1;
  int64_t stride = 1, padding = 0, groups = 1;
  bool bias = true;
  /// Weights normal with variance 2 / (out * kernel^2) (He et al. 2015, "fan out", as torchvision's ResNets) instead of
  /// PyTorch's default: uniform in ±1/sqrt(in / groups * kernel^2). The bias has the default in both cases.
  bool he_fan_out = false;
};

/// Input and output [n, c, h, w] in channels_last order; weight [out, in / groups, kernel, kernel], bias [out].
/// Sharded by output channels (the input's gradient is a sum over workers), by input channels (the output is a sum), or,
/// where there are groups, by whole groups (nothing is summed).
class Conv2d : public Layer {
 public:
  Conv2d(std::string name, Conv2dOptions options);

  std::string_view kind() const override { return "conv2d"; }
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t extent(int64_t input) const { return (input + 2 * options_.padding - options_.kernel) / options_.stride + 1; }
  int64_t local_groups(const LayerCall& call) const;

  Conv2dOptions options_;
};

}  // namespace trireme
