// MaxPool2d: the largest value of each square window.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"
#include "model/layers/halo.h"

namespace trireme {

struct MaxPool2dOptions {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;  ///< at most half the kernel
};

/// [n, c, h, w]; sharded by channels, or by rows with a halo where windows overlap (halo.h).
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
  Window window() const { return {options_.kernel, options_.stride, options_.padding}; }
  Halo halo(const LayerCall& call) const { return is_split_by_height(call) ? halo_of(window()) : Halo{}; }
  /// Rows of padding that the halo does not bring.
  int64_t padding_y(const LayerCall& call) const { return is_split_by_height(call) ? 0 : options_.padding; }

  MaxPool2dOptions options_;
};

}  // namespace trireme
