// MaxPool2d: the largest value of each square window.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

struct MaxPool2dOptions {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;  ///< at most half the kernel
};

/// [n, c, h, w]; sharded by channels.
class MaxPool2d : public Layer {
 public:
  MaxPool2d(std::string name, MaxPool2dOptions options = {}) : Layer(std::move(name)), options_(options) {}

  std::string_view kind() const override { return "max_pool2d"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  int64_t extent(int64_t input) const { return (input + 2 * options_.padding - options_.kernel) / options_.stride + 1; }

  MaxPool2dOptions options_;
};

}  // namespace trireme
