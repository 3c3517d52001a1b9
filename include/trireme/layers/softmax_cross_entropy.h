// SoftmaxCrossEntropy: the classification loss, one value per sample.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct SoftmaxCrossEntropyOptions {
  /// Positions with this label are left out of the sum and of the mean.
  std::optional<int64_t> ignore_index = {};
  /// Share of each label that is spread evenly over all classes (Szegedy et al., "Rethinking the Inception
  /// Architecture", 2016).
  double label_smoothing = 0;
  /// The divisor of a sample's sum of losses. counted_positions: the number of its counted positions, so that every
  /// sample has the same weight. all_positions: the number of all its positions, so that every counted position has the
  /// same weight, in sentences of any length (the usual objective of translation, Wu et al., "GNMT", 2016, except for a
  /// constant factor).
  enum class Mean { counted_positions, all_positions };
  Mean mean = Mean::counted_positions;
  /// For all_positions: the divisor, for samples that have fewer positions than others of the same data set because
  /// they have less padding. 0: the number of positions of the labels.
  int64_t positions = 0;
  bool reports = true;  ///< false: no metrics, for an auxiliary head's loss
};

/// Inputs: logits [n, classes] and labels [n] (integers), or for sequences logits [n, t, classes] and labels [n, t].
/// Labels may also be real numbers of the logits' shape: each class's share of the label (mixed samples: Zhang et al.,
/// "mixup", 2018). Output: per sample the mean over its positions of - sum over classes of share * log softmax(logits),
/// [n], in float (double for double logits); 0 for a sample with only ignored positions. Labels have no gradient.
///
/// Reports sums over samples. "correct": the share of counted positions whose largest logit (the first one among
/// equals) is the label's, or that of the largest share. "top5", if samples have no positions and there are more than 5
/// classes: likewise, among the five largest. A NaN logit counts as larger than every number, and no label with such a
/// logit is right. With ignore_index or label_smoothing: "token_loss", the sum over counted positions of - log
/// softmax(logits)[label]; "correct_tokens", how many of them are right; and "counted", their number.
///
/// Split by "vocabulary": each worker holds a share of the classes, and only maxima, sums and the label's logit are
/// communicated (Shoeybi et al., "Megatron-LM", 2019). Split by "sequence": each worker holds a share of the positions,
/// and a few sums per sample are communicated. Throws a user error that names a label outside 0 .. classes - 1 that is
/// not ignored.
class SoftmaxCrossEntropy : public Layer {
 public:
  explicit SoftmaxCrossEntropy(std::string name, SoftmaxCrossEntropyOptions options = {});

  std::string_view kind() const override { return "softmax_cross_entropy"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  OutputType output_type() const override { return OutputType::master; }
  std::optional<int64_t> integers_below(std::span<const Shape> inputs, size_t index) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;

 private:
  struct Rows;
  void check_labels(const at::Tensor& labels, int64_t classes) const;
  bool is_ignored(int64_t label) const { return options_.ignore_index && label == *options_.ignore_index; }
  /// Returns one loss per sample from the sums per row. Saves each sample's divisor for the gradient and reports the
  /// metrics.
  at::Tensor sum_samples(LayerCall& call, const Rows& rows, int64_t samples) const;
  template <class T>
  at::Tensor loss_of(LayerCall& call, Rows& rows, int64_t samples) const;
  template <class T>
  void subtract_labels(at::Tensor& gradient, const at::Tensor& labels, int64_t first, double amount) const;

  SoftmaxCrossEntropyOptions options_;
};

}  // namespace trireme
