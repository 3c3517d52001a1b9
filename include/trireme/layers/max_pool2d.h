// MaxPool2d: the largest value of each window, PyTorch's nn.MaxPool2d.
#pragma once

#include <string>
#include <vector>

#include "trireme/layers/pool2d.h"

namespace trireme {

struct MaxPool2dOptions {
  Size2d kernel = 2;
  Size2d stride = 2;
  Size2d padding = 0;      ///< at most half the kernel
  bool ceil_mode = false;  ///< output sizes are rounded up: the last windows may extend beyond the padding
};

/// [n, c, h, w]; sharded by channels, or by rows, with a halo (rows of the neighbours) if
/// windows overlap.
class MaxPool2d : public Pool2d {
 public:
  explicit MaxPool2d(std::string name, MaxPool2dOptions options = {});

  std::string_view kind() const override { return "max_pool2d"; }
  Attributes attributes() const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
};

}  // namespace trireme
