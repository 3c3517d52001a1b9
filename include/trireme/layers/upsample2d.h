// Upsample2d: scales images up (or down) by interpolation, PyTorch's nn.Upsample and F.interpolate.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

enum class Interpolation { nearest, bilinear };

struct Upsample2dOptions {
  Interpolation mode = Interpolation::nearest;
  Size2d factor = 2;  ///< output size / input size, if `size` is not given
  Size2d size = 0;    ///< output size; 0: by `factor`
  /// For bilinear: input and output align at the centres of the corner pixels, instead of at the outer edges of these
  /// pixels.
  bool align_corners = false;
};

/// [n, c, h, w] in channels_last order. No parameters. Sharded by channels; with `nearest` also by rows if the number
/// of rows is multiplied by a whole factor. Computes in float under bfloat16.
class Upsample2d : public Layer {
 public:
  Upsample2d(std::string name, Upsample2dOptions options = {});

  std::string_view kind() const override;
  Attributes attributes() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// `height`: the number of rows that this worker holds.
  Size2d extent(const LayerCall& call, int64_t height, int64_t width) const;

  Upsample2dOptions options_;
};

}  // namespace trireme
