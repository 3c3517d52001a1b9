// SoftmaxCrossEntropy: the classification loss, one value per sample.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

struct SoftmaxCrossEntropyOptions {
  std::optional<int64_t> ignore_index = {};  ///< positions with this label count neither in the sum nor in the mean
};

/// Inputs: logits [n, classes] and labels [n] (integers), or for sequences logits [n, t, classes] and labels [n, t]. Output: per
/// sample the mean over its positions of -log softmax(logits)[label], [n], in float (double for double logits); a sample of
/// ignored positions only has loss 0. (Every sample counts alike, however many of its positions are ignored.) Backward gives
/// (softmax - one-hot) * output gradient / positions. Reports "correct": the sum over samples of the share of counted positions
/// whose largest logit (the first one among equals) is the label's.
///
/// Under "vocabulary" each worker holds a share of the classes and only maxima, sums and the label's logit travel (Shoeybi et
/// al., "Megatron-LM", 2019); under "sequence" a share of the positions, and three sums per sample travel.
/// Errors: user error naming a label outside 0 .. classes - 1 that is not to be ignored.
class SoftmaxCrossEntropy : public Layer {
 public:
  explicit SoftmaxCrossEntropy(std::string name, SoftmaxCrossEntropyOptions options = {})
      : Layer(std::move(name)), options_(options) {}

  std::string_view kind() const override { return "softmax_cross_entropy"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  void check_labels(const at::Tensor& labels, int64_t classes) const;
  template <class T>
  at::Tensor loss_of(LayerCall& call, at::Tensor& logits, const at::Tensor& labels, int64_t samples) const;

  SoftmaxCrossEntropyOptions options_;
};

}  // namespace trireme
