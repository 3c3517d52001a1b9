// DropSamples: dropout of whole samples (stochastic depth: Huang, Sun, Liu, Sedra, Weinberger, "Deep Networks with
// Stochastic Depth", 2016) or of whole channels of them (PyTorch's nn.Dropout2d).
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// In training, each sample (with `dims` = 1: each channel of it; the mask has the first `dims` dims of a sample) is
/// set to 0 with the given probability, at least 0 and below 1; otherwise it is divided by the probability of being
/// kept. The masks are keyed as Dropout's. Split along any dim that divides evenly.
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
  /// Returns factors for the local shard: 0, or 1 / (1 - probability).
  at::Tensor draw_factors(const LayerCall& call, const at::Tensor& input) const;
  bool is_on(const LayerCall& call) const { return call.training && probability_ > 0; }

  double probability_;
  int dims_;
};

}  // namespace trireme
