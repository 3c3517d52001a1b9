// AvgPool2d: the mean of each window, PyTorch's nn.AvgPool2d.
#pragma once

#include <string>
#include <vector>

#include "trireme/layers/pool2d.h"

namespace trireme {

struct AvgPool2dOptions {
  Size2d kernel = 2;
  Size2d stride = 2;
  Size2d padding = 0;             ///< at most half the kernel
  bool ceil_mode = false;         ///< output sizes are rounded up: the last windows may extend beyond the padding
  bool count_include_pad = true;  ///< padding counts as zeros; false: the mean is over the image's own pixels
};

/// [n, c, h, w]; sharded by channels, or by rows. With overlapping windows the split by rows uses a halo (rows of the
/// neighbours). The split by rows requires that the divisor of every mean is the kernel's area: no ceil_mode, and no
/// padding that does not count.
class AvgPool2d : public Pool2d {
 public:
  explicit AvgPool2d(std::string name, AvgPool2dOptions options = {});

  std::string_view kind() const override { return "avg_pool2d"; }
  Attributes attributes() const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  const bool count_include_pad_;
};

}  // namespace trireme
