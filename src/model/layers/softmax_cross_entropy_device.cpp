#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "model/layers/common.h"
#include "model/layers/softmax_rows.h"

namespace trireme {
namespace {

constexpr double kNoLogit = -std::numeric_limits<double>::infinity();

/// The labels of rows, as this worker sees them.
struct DeviceLabels {
  at::Tensor own;     ///< [rows], relative to the worker's first class
  at::Tensor held;    ///< [rows]: true if the worker has that class
  at::Tensor column;  ///< [rows, 1]: the index of that class; of some class if it is not held
};

DeviceLabels labels_on_device(const LayerCall& call, const at::Tensor& labels, int64_t width) {
  const int64_t first = softmax_first_class(call, width);
  const at::Tensor own = first == 0 ? labels : labels - first;
  return {own, at::logical_and(own.ge(0), own.lt(width)), own.clamp(0, width - 1).unsqueeze(1)};
}

at::Tensor at_labels(const at::Tensor& rows, const DeviceLabels& labels) {
  return rows.gather(1, labels.column).squeeze(1);
}

/// Returns per row the class with the largest share, the lowest class among equals.
at::Tensor largest_share(LayerCall& call, const at::Tensor& shares) {
  auto [tops, classes] = at::max(shares, 1);
  if (!softmax_by_vocabulary(call)) return classes;
  const at::Tensor own = tops.clone();
  call.tensor_group().all_reduce(tops, ReduceOp::max);
  // negated, so that a maximum over workers finds the lowest
  at::Tensor found = at::add(classes, softmax_first_class(call, shares.size(1))).to(at::kDouble).neg_();
  found.masked_fill_(own.ne(tops), kNoLogit);
  call.tensor_group().all_reduce(found, ReduceOp::max);
  return found.neg_().to(at::kLong);
}

/// Returns per row the number of classes before the label in the order of logits: NaN precedes every number.
at::Tensor classes_before(const at::Tensor& logits, const DeviceLabels& labels, const at::Tensor& of_label) {
  const at::Tensor classes = at::arange(logits.size(1), labels.own.options()), value = of_label.unsqueeze(1);
  return at::where(classes.lt(labels.own.unsqueeze(1)), logits.lt(value), logits.le(value)).logical_not_().sum(1);
}

/// Returns 1 where that number is not 0, from the row's first largest logit. Does not read the logits again.
at::Tensor any_class_before(const at::Tensor& top, const at::Tensor& index, const DeviceLabels& labels,
                            const at::Tensor& of_label) {
  return at::where(index.lt(labels.own), top.lt(of_label), top.le(of_label)).logical_not_();
}

/// What the sums of a row are made of. `logits`: any constant may have been subtracted from a row's.
at::Tensor row_sums(const SoftmaxCrossEntropyOptions& options, const at::Tensor& logits, const at::Tensor& shares,
                    const DeviceLabels& labels, const at::Tensor& exponentials, const at::Tensor& ahead) {
  const at::Tensor zeros = at::zeros_like(exponentials);
  const at::Tensor target =
      shares.defined() ? at::mul(shares, logits).sum(1) : at::where(labels.held, at_labels(logits, labels), zeros);
  const at::Tensor share = shares.defined() ? shares.sum(1) : labels.held.to(exponentials.scalar_type()),
                   all = options.label_smoothing > 0 ? logits.sum(1) : zeros;
  return at::stack({exponentials, target, share, all, ahead.to(exponentials.scalar_type())}, 1);
}

/// The probabilities of rows [rows, classes], and the sums of their losses [rows, kSoftmaxRowSums].
struct DeviceRows {
  at::Tensor probabilities, sums;
};

/// All classes are on this worker. The logarithm of the softmax is one operator; relative to its divisor the sum of
/// exponentials is 1.
DeviceRows whole_rows(const SoftmaxCrossEntropyOptions& options, const SoftmaxSizes& sizes, const at::Tensor& logits,
                      const at::Tensor& shares, const DeviceLabels& labels) {
  const at::Tensor of_label = at_labels(logits, labels);
  at::Tensor ahead;
  if (sizes.are_samples && sizes.classes > kSoftmaxTop) {
    ahead = classes_before(logits, labels, of_label);
  } else {
    const auto [top, index] = at::max(logits, 1);
    ahead = any_class_before(top, index, labels, of_label);
  }
  at::Tensor logarithms = at::_log_softmax(logits.to(sizes.type), 1, /*half_to_float=*/false);
  const at::Tensor ones = at::ones({logits.size(0)}, logarithms.options());
  const at::Tensor sums = row_sums(options, logarithms, shares, labels, ones, ahead);
  return {logarithms.exp_(), sums};
}

/// Each worker has a share of the classes: they exchange maxima, then sums.
DeviceRows divided_rows(LayerCall& call, const SoftmaxCrossEntropyOptions& options, const SoftmaxSizes& sizes,
                        const at::Tensor& logits, const at::Tensor& shares, const DeviceLabels& labels) {
  const auto [top, index] = at::max(logits, 1);
  at::Tensor tops = at::stack({top, at_labels(logits, labels).masked_fill(labels.held.logical_not(), kNoLogit)});
  tops = tops.to(sizes.type);
  call.tensor_group().all_reduce(tops, ReduceOp::max);
  const at::Tensor of_label = tops.select(0, 1);
  const at::Tensor ahead = sizes.are_samples && sizes.classes > kSoftmaxTop
                               ? classes_before(logits, labels, of_label)
                               : any_class_before(top, index, labels, of_label);
  at::Tensor relative = at::sub(logits, tops.select(0, 0).unsqueeze(1));  // in the type of the maxima
  at::Tensor sums = row_sums(options, relative, shares, labels, tops.select(0, 0), ahead);
  relative.exp_();
  sums.select(1, kSoftmaxExponentials).copy_(relative.sum(1));
  call.tensor_group().all_reduce(sums);
  return {relative.div_(sums.select(1, kSoftmaxExponentials).unsqueeze(1)), sums};
}

/// Returns the sums over the positions of each sample [samples, kSoftmaxSampleSums].
at::Tensor sample_sums_of(const SoftmaxCrossEntropyOptions& options, const SoftmaxSizes& sizes, const at::Tensor& sums,
                          const at::Tensor& labels, bool has_shares) {
  const at::Tensor rows = sums.to(at::kDouble), share = rows.select(1, kSoftmaxTargetShare);
  const at::Tensor log_total = rows.select(1, kSoftmaxExponentials).log(), ahead = rows.select(1, kSoftmaxAhead);
  // the share of a label is 1, and 0 if no worker has it: such a wrong label gives no finite loss
  const at::Tensor plain =
      at::sub(has_shares ? at::mul(log_total, share) : at::div(log_total, share), rows.select(1, kSoftmaxTargetLogit));
  at::Tensor loss = plain;
  if (const double smoothing = options.label_smoothing; smoothing > 0) {
    const at::Tensor even = at::sub(log_total, rows.select(1, kSoftmaxAllLogits), 1 / double(sizes.classes));
    loss = at::mul(plain, 1 - smoothing).add_(even, smoothing);
  }
  at::Tensor columns = at::stack(
      {loss, at::ones_like(loss), ahead.eq(0).to(at::kDouble), ahead.lt(double(kSoftmaxTop)).to(at::kDouble), plain},
      1);
  if (options.ignore_index && !has_shares) columns.masked_fill_(labels.eq(*options.ignore_index).unsqueeze(1), 0);
  return columns.view({sizes.samples, sizes.positions, int64_t(kSoftmaxSampleSums)}).sum(1);
}

}  // namespace

at::Tensor softmax_cross_entropy_on_device(LayerCall& call, const SoftmaxCrossEntropyOptions& options,
                                           std::span<const at::Tensor> inputs) {
  const SoftmaxSizes sizes = softmax_sizes(call, inputs[0]);
  const int64_t width = inputs[0].size(-1), n = sizes.samples * sizes.positions;
  const at::Tensor logits = inputs[0].reshape({n, width});
  at::Tensor shares, labels;
  if (inputs[1].dim() == inputs[0].dim()) {
    shares = inputs[1].to(sizes.type).reshape({n, width}).contiguous();
    labels = largest_share(call, shares);
  } else {
    labels = inputs[1].to(at::kLong).reshape({n}).contiguous();
  }
  const DeviceLabels places = labels_on_device(call, labels, width);
  const DeviceRows rows = softmax_by_vocabulary(call) ? divided_rows(call, options, sizes, logits, shares, places)
                                                      : whole_rows(options, sizes, logits, shares, places);
  call.saved.assign(kSoftmaxSaved, at::Tensor());
  call.saved[kSoftmaxProbabilities] = rows.probabilities;
  call.saved[kSoftmaxLabels] = labels;
  if (shares.defined()) {
    call.saved[kSoftmaxLabelShares] = shares;
    call.saved[kSoftmaxLabelTotals] = rows.sums.select(1, kSoftmaxTargetShare).clone();
  }
  call.saved[kSoftmaxLogitShape] = saved_shape(inputs[0]);
  call.saved[kSoftmaxLogitType] = at::empty({0}, inputs[0].options());
  at::Tensor sample_sums = sample_sums_of(options, sizes, rows.sums, labels, shares.defined());
  return softmax_sample_losses(call, options, sizes, sample_sums);
}

std::vector<at::Tensor> softmax_cross_entropy_backward_on_device(LayerCall& call,
                                                                 const SoftmaxCrossEntropyOptions& options,
                                                                 const at::Tensor& output_gradient) {
  const at::Tensor &probabilities = call.saved.at(kSoftmaxProbabilities), &labels = call.saved.at(kSoftmaxLabels),
                   &shares = call.saved.at(kSoftmaxLabelShares);
  const int64_t n = probabilities.size(0), width = probabilities.size(1), samples = output_gradient.size(0);
  const auto logit_type = call.saved.at(kSoftmaxLogitType).scalar_type();
  const double smoothing = options.label_smoothing;
  const double even = smoothing / double(width * (softmax_by_vocabulary(call) ? call.tensor_degree : 1));
  at::Tensor factor = at::mul(output_gradient.to(probabilities.scalar_type()), call.saved.at(kSoftmaxDivisors));
  factor = factor.unsqueeze(1).expand({samples, samples == 0 ? 0 : n / samples}).reshape({n, 1});
  at::Tensor gradient;
  if (shares.defined()) {
    const at::Tensor total = at::mul(call.saved.at(kSoftmaxLabelTotals), 1 - smoothing).add_(smoothing);
    gradient = at::mul(probabilities, total.unsqueeze(1)).sub_(shares, 1 - smoothing);
    if (smoothing > 0) gradient.sub_(even);
    gradient = gradient.mul_(factor).to(logit_type);
  } else {
    if (options.ignore_index) factor = factor.masked_fill(labels.eq(*options.ignore_index).unsqueeze(1), 0);
    const DeviceLabels places = labels_on_device(call, labels, width);
    // the label's element is a small difference, so it is rounded once, from the probabilities
    const at::Tensor of_label = at::sub(probabilities.gather(1, places.column), even)
                                    .add_(places.held.unsqueeze(1), smoothing - 1)
                                    .mul_(factor);
    if (smoothing > 0) {
      gradient = at::sub(probabilities, even).mul_(factor).to(logit_type);
    } else {  // rounds to the logits' type in the same pass
      gradient = at::empty({n, width}, probabilities.options().dtype(logit_type));
      at::mul_out(gradient, probabilities, factor);
    }
    gradient.scatter_(1, places.column, of_label.to(logit_type));
  }
  return {gradient.view(restore_shape(call.saved.at(kSoftmaxLogitShape))), at::Tensor()};
}

}  // namespace trireme
