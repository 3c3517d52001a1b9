// AdaptiveAvgPool2d: means over a given number of windows, PyTorch's nn.AdaptiveAvgPool2d. It allows a classifier of
// fixed size (VGG's) to read images of any size.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

/// [n, c, h, w] -> [n, c, size]: output row i is the mean of input rows floor(i h / height) to ceil((i + 1) h /
/// height); columns likewise. Images that already have that size pass unchanged. Sharded by channels.
class AdaptiveAvgPool2d : public Layer {
 public:
  AdaptiveAvgPool2d(std::string name, Size2d size);

  std::string_view kind() const override { return "adaptive_avg_pool2d"; }
  Attributes attributes() const override { return {{"size", size_.list()}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  bool ends_block() const override { return true; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  bool changes(const Shape& shape) const { return shape[2] != size_.height || shape[3] != size_.width; }

  Size2d size_;
};

}  // namespace trireme
