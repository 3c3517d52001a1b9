#include "trireme/layers/softmax_cross_entropy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/devices/device.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/softmax_rows.h"

namespace trireme {
namespace {

/// Returns per row the class with the largest value, the lowest class among equals.
template <class T>
at::Tensor largest_class(LayerCall& call, const at::Tensor& values) {
  const int64_t n = values.size(0), width = values.size(1), first = softmax_first_class(call, width);
  at::Tensor tops = at::empty({n}, values.options()), classes = at::empty({n}, at::kDouble);
  double* found = classes.data_ptr<double>();
  for (int64_t i = 0; i < n; ++i) {
    const T* row = values.data_ptr<T>() + i * width;
    const T* top = std::max_element(row, row + width);
    tops.data_ptr<T>()[i] = *top;
    found[i] = -double(first + (top - row));  // negated, so that a maximum over workers finds the lowest
  }
  if (softmax_by_vocabulary(call)) {
    const at::Tensor own = tops.clone();
    call.tensor_group().all_reduce(tops, ReduceOp::max);
    classes.masked_fill_(own.ne(tops), -std::numeric_limits<double>::infinity());
    call.tensor_group().all_reduce(classes, ReduceOp::max);
  }
  return classes.neg().to(at::kLong);
}

/// Returns the number of a row's classes that precede class `own` (which may be outside the row), whose logit is
/// `value`. NaN precedes every number, and precedes itself: if the label's logit is NaN, no prediction is right.
template <class T>
int64_t classes_ahead(const T* row, int64_t width, int64_t own, T value) {
  const int64_t middle = std::clamp<int64_t>(own, 0, width);
  int64_t ahead = 0;
  for (int64_t c = 0; c < middle; ++c) ahead += !(row[c] < value);
  for (int64_t c = middle; c < width; ++c) ahead += !(row[c] <= value);
  return ahead;
}

}  // namespace

SoftmaxSizes softmax_sizes(const LayerCall& call, const at::Tensor& logits) {
  const int64_t samples = logits.size(0), width = logits.size(-1), rows = logits.numel() / std::max<int64_t>(width, 1);
  return {.samples = samples,
          .positions = samples == 0 ? 0 : rows / samples,
          .classes = width * (softmax_by_vocabulary(call) ? call.tensor_degree : 1),
          .are_samples = logits.dim() == 2,
          .type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat};
}

at::Tensor softmax_sample_losses(LayerCall& call, const SoftmaxCrossEntropyOptions& options, const SoftmaxSizes& sizes,
                                 at::Tensor& sample_sums) {
  if (softmax_by_sequence(call)) call.tensor_group().all_reduce(sample_sums);
  const at::Tensor share = sample_sums.select(1, kSoftmaxCounted).clamp_min(1).reciprocal_();
  if (options.reports) {
    call.report("correct", at::mul(sample_sums.select(1, kSoftmaxCorrect), share).sum());
    if (sizes.are_samples && sizes.classes > kSoftmaxTop)
      call.report("top5", at::mul(sample_sums.select(1, kSoftmaxAmongFive), share).sum());
    if (options.ignore_index || options.label_smoothing > 0) {
      call.report("token_loss", sample_sums.select(1, kSoftmaxPlainLoss).sum());
      call.report("correct_tokens", sample_sums.select(1, kSoftmaxCorrect).sum());
      call.report("counted", sample_sums.select(1, kSoftmaxCounted).sum());
    }
  }
  const bool by_counted = options.mean == SoftmaxCrossEntropyOptions::Mean::counted_positions;
  const int64_t own_positions = sizes.positions * (softmax_by_sequence(call) ? call.tensor_degree : 1);
  const int64_t all_positions = options.positions > 0 ? options.positions : own_positions;
  const at::Tensor divisor =
      by_counted ? share : at::full_like(share, all_positions == 0 ? 0 : 1 / double(all_positions));
  call.saved[kSoftmaxDivisors] = divisor.to(sizes.type);
  return at::mul(sample_sums.select(1, kSoftmaxLoss), divisor).to(sizes.type);
}

/// The data of all rows.
struct SoftmaxCrossEntropy::Rows {
  at::Tensor logits;  ///< [rows, classes of this worker], a private copy; replaced by probabilities
  at::Tensor labels;  ///< [rows]
  at::Tensor shares;  ///< shaped as the logits; undefined for plain labels
  at::Tensor sums;    ///< [rows, kSoftmaxRowSums]
  SoftmaxSizes sizes;
};

SoftmaxCrossEntropy::SoftmaxCrossEntropy(std::string name, SoftmaxCrossEntropyOptions options)
    : Layer(std::move(name)), options_(options) {
  if (!(options_.label_smoothing >= 0 && options_.label_smoothing < 1))
    fail_shape(*this, fmt::format("label_smoothing {}", options_.label_smoothing), "it must be at least 0 and below 1",
               "correct the option");
}

/// Computes the sums and replaces logits by probabilities. Under "vocabulary" workers communicate twice: maxima, then
/// sums.
template <class T>
at::Tensor SoftmaxCrossEntropy::loss_of(LayerCall& call, Rows& rows, int64_t samples) const {
  const int64_t n = rows.logits.size(0), width = rows.logits.size(1), first = softmax_first_class(call, width);
  if (rows.shares.defined()) rows.labels = largest_class<T>(call, rows.shares);
  const int64_t* label = rows.labels.data_ptr<int64_t>();
  // Row 0: maxima over all classes; row 1: the label's logit.
  at::Tensor tops = at::full({2, n}, -std::numeric_limits<double>::infinity(), rows.logits.options());
  T* top = tops.data_ptr<T>();
  tops.select(0, 0).copy_(rows.logits.amax(1));
  for (int64_t i = 0; i < n; ++i)
    if (const int64_t own = label[i] - first; own >= 0 && own < width)
      top[n + i] = rows.logits.data_ptr<T>()[i * width + own];
  if (softmax_by_vocabulary(call)) call.tensor_group().all_reduce(tops, ReduceOp::max);
  rows.sums = at::zeros({n, int64_t(kSoftmaxRowSums)}, rows.logits.options());
  for (int64_t i = 0; i < n; ++i) {
    const T* row = rows.logits.data_ptr<T>() + i * width;
    const T of_label = top[n + i];
    const int64_t own = label[i] - first;
    T* sum = rows.sums.data_ptr<T>() + i * kSoftmaxRowSums;
    sum[kSoftmaxAhead] = T(classes_ahead(row, width, own, of_label));
    if (rows.shares.defined() || own < 0 || own >= width) continue;
    sum[kSoftmaxTargetLogit] = of_label - top[i];
    sum[kSoftmaxTargetShare] = 1;
  }
  rows.logits.sub_(tops.select(0, 0).unsqueeze(1));
  if (rows.shares.defined()) {
    rows.sums.select(1, kSoftmaxTargetLogit).copy_(at::mul(rows.shares, rows.logits).sum(1));
    rows.sums.select(1, kSoftmaxTargetShare).copy_(rows.shares.sum(1));
  }
  if (options_.label_smoothing > 0) rows.sums.select(1, kSoftmaxAllLogits).copy_(rows.logits.sum(1));
  rows.logits.exp_();
  rows.sums.select(1, kSoftmaxExponentials).copy_(rows.logits.sum(1));
  if (softmax_by_vocabulary(call)) call.tensor_group().all_reduce(rows.sums);
  rows.logits.div_(rows.sums.select(1, kSoftmaxExponentials).unsqueeze(1));
  return sum_samples(call, rows, samples);
}

at::Tensor SoftmaxCrossEntropy::sum_samples(LayerCall& call, const Rows& rows, int64_t samples) const {
  const int64_t n = rows.labels.numel(), positions = samples == 0 ? 0 : n / samples;
  const double smoothing = options_.label_smoothing;
  const at::Tensor row_sums = rows.sums.to(at::kDouble);
  at::Tensor sample_sums = at::zeros({samples, int64_t(kSoftmaxSampleSums)}, at::TensorOptions().dtype(at::kDouble));
  for (int64_t i = 0; i < n; ++i) {
    if (!rows.shares.defined() && is_ignored(rows.labels.data_ptr<int64_t>()[i])) continue;
    const double* row = row_sums.data_ptr<double>() + i * kSoftmaxRowSums;
    double* sample = sample_sums.data_ptr<double>() + i / positions * kSoftmaxSampleSums;
    const double log_total = std::log(row[kSoftmaxExponentials]),
                 plain = row[kSoftmaxTargetShare] * log_total - row[kSoftmaxTargetLogit];
    // The loss of a label that is spread evenly over all classes.
    const double even = log_total - row[kSoftmaxAllLogits] / double(rows.sizes.classes);
    sample[kSoftmaxLoss] += (1 - smoothing) * plain + (smoothing > 0 ? smoothing * even : 0);
    sample[kSoftmaxPlainLoss] += plain;
    sample[kSoftmaxCounted] += 1;
    sample[kSoftmaxCorrect] += row[kSoftmaxAhead] == 0;
    sample[kSoftmaxAmongFive] += row[kSoftmaxAhead] < kSoftmaxTop;
  }
  return softmax_sample_losses(call, options_, rows.sizes, sample_sums);
}

void SoftmaxCrossEntropy::check_labels(const at::Tensor& labels, int64_t classes) const {
  const int64_t* label = labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i)
    if ((label[i] < 0 || label[i] >= classes) && !is_ignored(label[i]))
      fail_shape(*this, fmt::format("label {}", label[i]),
                 fmt::format("with {} classes labels are 0 to {}", classes, classes - 1),
                 "check the dataset's labels or the model's number of classes");
}

Shape SoftmaxCrossEntropy::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  const Shape &logits = inputs[0], &labels = inputs[1];
  if (logits.size() != 1 && logits.size() != 2)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(logits)),
               "logits are [classes] or [positions, classes] per sample", "reshape the input or use another layer");
  if (labels != logits && labels != Shape(logits.begin(), logits.end() - 1))
    fail_shape(*this, fmt::format("label sample shape {} for logits {}", to_string(labels), to_string(logits)),
               logits.size() == 1 ? "a label is one number per sample, or one per class"
                                  : "a label is one number per position, or one per class of it",
               "give class indices, or each class's share");
  return {};
}

std::vector<ShardingOption> SoftmaxCrossEntropy::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), classes = Placement::shard(int(inputs[0].size())),
                  sequence = Placement::shard(1);
  const Placement labels = inputs[1] == inputs[0] ? classes : whole;
  if (inputs[0].back() % degree == 0)
    options.push_back({.name = "vocabulary",
                       .inputs = {classes, labels},
                       .output = whole,
                       .input_gradients = {classes, labels},
                       .divides_work = true,
                       .communicates_over_tensor_axis = true});
  if (inputs[0].size() == 2 && inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence",
                       .inputs = {sequence, sequence},
                       .output = whole,
                       .input_gradients = {sequence, sequence},
                       .divides_work = true,
                       .communicates_over_tensor_axis = true});
  return options;
}

double SoftmaxCrossEntropy::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // maximum, difference, exponential, sum
}

at::Tensor SoftmaxCrossEntropy::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor &logits = inputs[0], &labels = inputs[1];
  if (!on_host(logits)) return softmax_cross_entropy_on_device(call, options_, inputs);
  Rows rows;
  rows.sizes = softmax_sizes(call, logits);
  const int64_t samples = rows.sizes.samples, width = logits.size(-1), n = samples * rows.sizes.positions;
  const auto type = rows.sizes.type;
  rows.logits = logits.to(type, /*non_blocking=*/false, /*copy=*/true).contiguous().view({n, width});
  if (labels.dim() == logits.dim()) {
    rows.shares = labels.to(type).reshape({n, width}).contiguous();
  } else {
    rows.labels = labels.to(at::kLong).reshape({n}).contiguous();
    check_labels(rows.labels, rows.sizes.classes);
  }
  call.saved.assign(kSoftmaxSaved, at::Tensor());
  const at::Tensor losses =
      type == at::kDouble ? loss_of<double>(call, rows, samples) : loss_of<float>(call, rows, samples);
  call.saved[kSoftmaxProbabilities] = rows.logits;
  call.saved[kSoftmaxLabels] = rows.labels;
  if (rows.shares.defined()) {
    call.saved[kSoftmaxLabelShares] = rows.shares;
    call.saved[kSoftmaxLabelTotals] = rows.sums.select(1, kSoftmaxTargetShare).clone();
  }
  call.saved[kSoftmaxLogitShape] = saved_shape(logits);
  call.saved[kSoftmaxLogitType] = at::empty({0}, logits.options());
  return losses;
}

/// Subtracts `amount` from gradient[row, label]; ignored rows become zero.
template <class T>
void SoftmaxCrossEntropy::subtract_labels(at::Tensor& gradient, const at::Tensor& labels, int64_t first,
                                          double amount) const {
  const int64_t *label = labels.data_ptr<int64_t>(), width = gradient.size(1);
  T* row = gradient.data_ptr<T>();
  for (int64_t i = 0; i < gradient.size(0); ++i, row += width) {
    const int64_t own = label[i] - first;
    if (is_ignored(label[i])) std::fill(row, row + width, T(0));
    else if (own >= 0 && own < width) row[own] -= T(amount);
  }
}

std::vector<at::Tensor> SoftmaxCrossEntropy::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor(), at::Tensor()};
  if (!on_host(call.saved.at(kSoftmaxProbabilities)))
    return softmax_cross_entropy_backward_on_device(call, options_, output_gradient);
  const at::Tensor &probabilities = call.saved.at(kSoftmaxProbabilities), &labels = call.saved.at(kSoftmaxLabels),
                   &shares = call.saved.at(kSoftmaxLabelShares);
  const int64_t rows = probabilities.size(0), width = probabilities.size(1), first = softmax_first_class(call, width);
  const int64_t samples = output_gradient.size(0);
  const double smoothing = options_.label_smoothing;
  const double even = smoothing / double(width * (softmax_by_vocabulary(call) ? call.tensor_degree : 1));
  at::Tensor gradient;
  if (shares.defined()) {
    const at::Tensor total = at::mul(call.saved.at(kSoftmaxLabelTotals), 1 - smoothing).add_(smoothing);
    gradient = at::mul(probabilities, total.unsqueeze(1)).sub_(shares, 1 - smoothing);
    if (smoothing > 0) gradient.sub_(even);
  } else {
    gradient = smoothing > 0 ? at::sub(probabilities, even) : probabilities.clone();
    if (gradient.scalar_type() == at::kDouble) subtract_labels<double>(gradient, labels, first, 1 - smoothing);
    else subtract_labels<float>(gradient, labels, first, 1 - smoothing);
  }
  // one product per element, as for labels without positions
  at::Tensor factor = at::mul(output_gradient.to(gradient.scalar_type()), call.saved.at(kSoftmaxDivisors));
  const Shape by_position{samples, samples == 0 ? 0 : rows / samples, width};
  gradient.view(by_position).mul_(factor.view({samples, 1, 1}));
  return {gradient.view(restore_shape(call.saved.at(kSoftmaxLogitShape)))
              .to(call.saved.at(kSoftmaxLogitType).scalar_type()),
          at::Tensor()};
}

/// Labels are integers, unless they are shares of classes.
std::optional<int64_t> SoftmaxCrossEntropy::integers_below(std::span<const Shape> inputs, size_t index) const {
  return index == 1 && inputs[1] != inputs[0] ? std::optional<int64_t>(inputs[0].back()) : std::nullopt;
}

/// Probabilities are saved in the loss's dtype; labels are retained as they are.
LayerMemory SoftmaxCrossEntropy::memory(const CallShapes& call) const {
  constexpr int64_t kDouble = 8;
  LayerMemory memory = plain_memory(call);
  const CallTensor& logits = call.inputs[0];
  const int64_t rows = logits.count() / logits.shape.back(), floats = logits.count() * call.master;
  const bool has_shares = call.inputs[1].shape == logits.shape;
  memory.keeps_input[1] = true;
  memory.saved = floats + call.samples * call.master + shape_bytes(logits);
  if (has_shares) memory.saved += rows * (8 + call.master);
  memory.input_gradients[1] = 0;
  const int64_t sums = rows * (2 + kSoftmaxRowSums) * call.master;
  set_forward_peak(
      memory, {floats + sums + rows * kSoftmaxRowSums * kDouble + call.samples * (kSoftmaxSampleSums + 3) * kDouble,
               floats + sums + (has_shares ? floats : 0)});
  const int64_t converted = call.compute == call.master ? 0 : logits.bytes();
  set_backward_peak(memory, {floats + converted + call.samples * call.master});
  return memory;
}

std::vector<OperatorWork> SoftmaxCrossEntropy::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 3, false);  // maximum, exponentials and sum, look-up
}

/// Maxima and sums per row if classes are divided, sums per sample if positions are.
LayerExchanges SoftmaxCrossEntropy::exchanges(const CallShapes& call) const {
  constexpr double kMaxima = 2, kDouble = 8;
  const RedistributionKind sum = RedistributionKind::all_reduce;
  if (call.option->name == "sequence")
    return {{{sum, double(call.samples) * double(kSoftmaxSampleSums) * kDouble}}, {}};
  const double rows = double(call.inputs[0].count()) / double(call.inputs[0].shape.back()),
               number = double(call.master);
  LayerExchanges exchanges;
  // For shares of classes: the largest share, and its class.
  if (call.inputs[1].shape.size() == call.inputs[0].shape.size()) {
    exchanges.forward.push_back({sum, rows * number});
    exchanges.forward.push_back({sum, rows * kDouble});
  }
  exchanges.forward.push_back({sum, kMaxima * rows * number});
  exchanges.forward.push_back({sum, double(kSoftmaxRowSums) * rows * number});
  return exchanges;
}

}  // namespace trireme
