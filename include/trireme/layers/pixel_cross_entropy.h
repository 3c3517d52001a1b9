// PixelCrossEntropy: the loss of semantic segmentation, one value per image.
#pragma once

#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Inputs: logits [n, classes, h, w] and labels [n, h, w] (integers); pixels with a negative label are not counted.
/// Output: per image the mean over its counted pixels of -log softmax(logits)[label], [n], in float (double for double
/// logits); 0 for an image without counted pixels. Every image has the same weight.
///
/// Reports, over counted pixels: per class k "intersection.<k>" (pixels both predicted and labelled k) and "union.<k>"
/// (predicted or labelled k), whose quotient is the class's IoU; and "correct", the sum over images of the share of
/// pixels whose largest logit (the first one among equals) is the label's.
///
/// Split by "height": each worker has some rows of every image; two sums per image and three per class are
/// communicated. Throws a user error that names a label of `classes` or more.
class PixelCrossEntropy : public Layer {
 public:
  using Layer::Layer;

  std::string_view kind() const override { return "pixel_cross_entropy"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  OutputType output_type() const override { return OutputType::master; }
  std::optional<int64_t> integers_below(std::span<const Shape> inputs, size_t index) const override {
    return index == 1 ? std::optional<int64_t>(inputs[0][0]) : std::nullopt;
  }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  void check_labels(const at::Tensor& labels, int64_t classes) const;
};

}  // namespace trireme
