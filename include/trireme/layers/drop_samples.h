// DropSamples: dropout of whole samples (stochastic depth: Huang, Sun, Liu, Sedra, Weinberger, "Deep Networks with
// Stochastic Depth", 2016) or of whole channels of them (PyTorch's nn.Dropout2d).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// While training, each sample (with `dims` = 1: each channel of it; the mask has the first `dims` dims of a sample) is
/// 0 with the given chance, at least 0 and below 1, and else divided by the chance to stay. The masks are keyed as
/// Dropout's. Split along any dim that divides evenly.
class DropSamples : public Layer {
 public:
  DropSamples(std::string name, double probability, int dims = 0);

  std::string_view kind() const override { return "drop_samples"; }
  Attributes attributes() const override { return {{"probability", probability_}, {"dims", int64_t(dims_)}}; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  /// 0, or one over the chance to stay, to be multiplied with the local shard.
  at::Tensor draw_factors(const LayerCall& call, const at::Tensor& input) const;
  bool is_on(const LayerCall& call) const { return call.training && probability_ > 0; }

  double probability_;
  int dims_;
};

}  // namespace trireme
