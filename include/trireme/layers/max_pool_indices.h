// MaxPoolIndices: the position of each maximum of a max pool within its window, for MaxUnpool2d. These are the "pooling
// indices" of SegNet (Badrinarayanan, Kendall, Cipolla, "SegNet: A Deep Convolutional Encoder-Decoder Architecture for
// Image Segmentation", 2015).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

/// [n, c, h, w] -> [n, c, h / window, w / window] of bytes: row * width + column within the window of the first largest
/// value, which is the value that MaxPool2d with kernel = stride = `window` returns (rows and columns of incomplete
/// windows are left out). It is a separate layer beside the pool, so that one byte per window is sent and retained for
/// the decoder, instead of the activations or 64-bit positions. A position within the window does not depend on the
/// part of the image that a worker holds. No gradient. Sharded by channels, or by rows.
class MaxPoolIndices : public Layer {
 public:
  explicit MaxPoolIndices(std::string name, Size2d window = 2);

  std::string_view kind() const override { return "max_pool_indices"; }
  Attributes attributes() const override { return {{"window", window_.list()}}; }
  bool passes_gradients() const override { return false; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  OutputType output_type() const override { return OutputType::byte; }
  bool ends_block() const override { return true; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall&, const at::Tensor&) const override { return {at::Tensor()}; }

 private:
  Size2d window_;
};

}  // namespace trireme
