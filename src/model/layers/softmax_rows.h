// What both forms of the softmax cross entropy share: the tensors that they save and the sums that workers exchange.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/softmax_cross_entropy.h"

namespace trireme {

/// Saved tensors: probabilities [rows, classes]; labels [rows]; for mixed labels each class's share [rows, classes] and
/// the sum of shares [rows]; 1 / the divisor of a sample's loss [n]; the logits' shape; an empty tensor of their dtype.
/// A row is a position of a sample, or a sample without positions.
enum SoftmaxSaved {
  kSoftmaxProbabilities,
  kSoftmaxLabels,
  kSoftmaxLabelShares,
  kSoftmaxLabelTotals,
  kSoftmaxDivisors,
  kSoftmaxLogitShape,
  kSoftmaxLogitType,
  kSoftmaxSaved
};

/// Sums over a row's classes, which workers add up under "vocabulary". The row's largest logit is subtracted from all
/// logits.
enum SoftmaxRowSum : int64_t {
  kSoftmaxExponentials,
  kSoftmaxTargetLogit,  ///< sum of share * logit: the label's logit for a plain label
  kSoftmaxTargetShare,  ///< sum of shares: 1 for a plain label
  kSoftmaxAllLogits,
  kSoftmaxAhead,  ///< number of classes before the label in the order of logits
  kSoftmaxRowSums
};
/// Sums over a sample's positions, which workers add up under "sequence".
enum SoftmaxSampleSum : int64_t {
  kSoftmaxLoss,
  kSoftmaxCounted,
  kSoftmaxCorrect,
  kSoftmaxAmongFive,
  kSoftmaxPlainLoss,
  kSoftmaxSampleSums
};

constexpr int64_t kSoftmaxTop = 5;

inline bool softmax_by_vocabulary(const LayerCall& call) { return call.option && call.option->name == "vocabulary"; }
inline bool softmax_by_sequence(const LayerCall& call) { return call.option && call.option->name == "sequence"; }

/// The first class that this worker holds; `width`: the number of classes that it holds.
inline int64_t softmax_first_class(const LayerCall& call, int64_t width) {
  return softmax_by_vocabulary(call) ? width * call.tensor_index : 0;
}

/// The sizes of a loss, and the dtype that it is computed in.
struct SoftmaxSizes {
  int64_t samples, positions, classes;  ///< positions of a sample on this worker; classes over all workers
  bool are_samples;                     ///< true if samples have no positions
  at::ScalarType type;
};

SoftmaxSizes softmax_sizes(const LayerCall& call, const at::Tensor& logits);

/// Returns one loss per sample from the sums per sample [samples, kSoftmaxSampleSums], a double tensor, which it adds
/// up over workers. Saves each sample's divisor for the gradient and reports the metrics.
at::Tensor softmax_sample_losses(LayerCall& call, const SoftmaxCrossEntropyOptions& options, const SoftmaxSizes& sizes,
                                 at::Tensor& sample_sums);

/// SoftmaxCrossEntropy::forward and backward on tensors that the host cannot read: libtorch's operators only. They do
/// not check labels: one outside 0 .. classes - 1 that is not ignored makes the loss infinite or NaN.
at::Tensor softmax_cross_entropy_on_device(LayerCall& call, const SoftmaxCrossEntropyOptions& options,
                                           std::span<const at::Tensor> inputs);
std::vector<at::Tensor> softmax_cross_entropy_backward_on_device(LayerCall& call,
                                                                 const SoftmaxCrossEntropyOptions& options,
                                                                 const at::Tensor& output_gradient);

}  // namespace trireme
