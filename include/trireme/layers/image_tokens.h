// ImageTokens: reads the pixels of an image as a sequence, row by row.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// [n, c, h, w] to [n, h w, c]. No copy for channels_last memory. Split by "channels" (features of the output) or by
/// "height" (its sequence).
class ImageTokens : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "image_tokens"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape>) const override { return 0; }
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
};

}  // namespace trireme
