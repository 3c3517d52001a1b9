// MaxUnpool2d: writes pooled values to the positions of their maxima, zeros elsewhere (Zeiler and Fergus, "Visualizing
// and Understanding Convolutional Networks", 2014). This is the upsampling of SegNet's decoder.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

struct MaxUnpool2dOptions {
  Size2d window = 2;
  /// Size of the output; 0: window * input. It is larger if the pool left out rows or columns; these become zeros.
  Size2d size = 0;
};

/// Inputs: values [n, c, h, w] and the bytes of MaxPoolIndices with the same window and shape; output [n, c, size].
/// Sharded by channels, or by rows if the pool left out no rows. Throws a user error that names an index outside the
/// window.
class MaxUnpool2d : public Layer {
 public:
  explicit MaxUnpool2d(std::string name, MaxUnpool2dOptions options = {});

  std::string_view kind() const override { return "max_unpool2d"; }
  Attributes attributes() const override {
    return {{"window", options_.window.list()}, {"size", options_.size.list()}};
  }
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
  Size2d extent(const LayerCall& call, int64_t height, int64_t width) const;
  void check_indices(const at::Tensor& indices) const;

  MaxUnpool2dOptions options_;
};

}  // namespace trireme
