// Upsample2d: larger (or smaller) images by interpolation, PyTorch's nn.Upsample and F.interpolate.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

enum class Interpolation { nearest, bilinear };

struct Upsample2dOptions {
  Interpolation mode = Interpolation::nearest;
  Size2d factor = 2;  ///< output size over input size, where `size` is not given
  Size2d size = 0;    ///< output size; 0: by `factor`
  bool align_corners =
      false;  ///< of bilinear: the corners' centres fall on each other, instead of the corners' outer edges
};

/// [n, c, h, w] in channels_last order. No parameters. Sharded by channels; with `nearest` also by rows where the rows'
/// number is multiplied by a whole factor. Under bfloat16 it computes in float.
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
  /// `height` is that of the whole image's part that this worker holds.
  Size2d extent(const LayerCall& call, int64_t height, int64_t width) const;

  Upsample2dOptions options_;
};

}  // namespace trireme
