// Conv2d: PyTorch's nn.Conv2d.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

class ConvolutionProduct;
struct Halo;
struct Window;

struct Conv2dOptions {
  int64_t in = 1, out = 1;
  Size2d kernel = 1, stride = 1, padding = 0;
  int64_t groups = 1;  ///< `groups` = `in`: a depthwise convolution
  bool bias = true;
  /// True: initial weights are normal with variance 2 / (out * kernel area) (He et al. 2015, "fan out", as in
  /// torchvision's ResNets). False: PyTorch's default, uniform in ±1/sqrt(in / groups * kernel area). The bias has the
  /// default in both cases.
  bool he_fan_out = false;
  Size2d dilation = 1;
  std::optional<Init> weight_init = {}, bias_init = {};  ///< in place of these defaults
};

/// Input and output [n, c, h, w] in channels_last order; weight [out, in / groups, kernel height, width], bias [out].
///
/// Sharded by output channels (the input's gradient is a sum over workers), by input channels (the output is a sum) or,
/// if there are groups, by whole groups (no sums). Also by rows of the images, for images too large for one device:
/// workers exchange the rows that windows extend into; every worker holds the whole weight and computes a
/// summand of its gradient.
class Conv2d : public Layer {
 public:
  Conv2d(std::string name, Conv2dOptions options);

  std::string_view kind() const override { return "conv2d"; }
  Attributes attributes() const override;
  std::vector<ParameterSpec> parameters() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  Window rows() const;     ///< along an image's height
  Window columns() const;  ///< along its width
  int64_t local_groups(const LayerCall& call) const;
  Size2d padding(const LayerCall& call) const;  ///< the padding that the halo does not replace
  Halo halo(const LayerCall& call) const;       ///< rows that the call borrows from its neighbours
  /// The convolution as a matrix product, if that is possible and faster; else nullopt.
  std::optional<ConvolutionProduct> as_product(LayerCall& call, const at::Tensor& input,
                                               const at::Tensor& weight) const;
  /// `input`: as saved by forward, with its halo. The gradient has the weight's type and channels_last order.
  at::Tensor input_gradient(LayerCall& call, const at::Tensor& input, const at::Tensor& gradient) const;
  void add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gradient) const;

  Conv2dOptions options_;
};

}  // namespace trireme
