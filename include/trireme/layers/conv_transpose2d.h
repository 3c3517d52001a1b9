// ConvTranspose2d: PyTorch's nn.ConvTranspose2d, the adjoint of a convolution. A decoder uses it to enlarge images
// (Long, Shelhamer, Darrell, "Fully Convolutional Networks for Semantic Segmentation", 2015).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

struct ConvTranspose2dOptions {
  int64_t in = 1, out = 1;
  Size2d kernel = 2, stride = 2;
  Size2d padding = 0;         ///< removed from the output on each side
  Size2d output_padding = 0;  ///< added to the output at the bottom and right; less than the stride
  int64_t groups = 1;
  bool bias = true;
  std::optional<Init> weight_init = {},
                      /// Default: PyTorch's, uniform in ±1/sqrt(out / groups * kernel area).
      bias_init = {};
};

/// Input [n, in, h, w], output [n, out, (h - 1) stride - 2 padding + kernel + output_padding, ...] in channels_last
/// order; weight [in, out / groups, kernel], bias [out].
///
/// Sharded by output channels (the input's gradient is a sum), by input channels (the output is a sum) or, if there are
/// groups, by whole groups. If kernel and stride are equal in height, each output row depends on one input row; then
/// also by rows, without halo, with whole parameters whose gradients are sums.
class ConvTranspose2d : public Layer {
 public:
  ConvTranspose2d(std::string name, ConvTranspose2dOptions options);

  std::string_view kind() const override { return "conv_transpose2d"; }
  Attributes attributes() const override;
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  int64_t local_groups(const LayerCall& call) const;
  Size2d extent(int64_t height, int64_t width) const;
  at::Tensor plain_backward(const at::Tensor& small, const at::Tensor& large, const at::Tensor& weight, int64_t groups,
                            bool of_weight) const;
  void add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gradient) const;

  ConvTranspose2dOptions options_;
};

}  // namespace trireme
