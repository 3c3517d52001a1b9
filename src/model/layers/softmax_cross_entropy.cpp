#include "model/layers/softmax_cross_entropy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/layers/common.h"

namespace trireme {
namespace {

/// Probabilities [rows, classes], labels [rows], one over the counted positions per sample [n], the logits' shape, and an empty
/// tensor of their type. A row is a position of a sample, or a sample without positions.
enum Saved { kProbabilities, kLabels, kShares, kLogitShape, kLogitType };

/// Columns of the sums per row that workers add up under "vocabulary".
enum RowSum : int64_t { kExponentials, kLabelLogit, kRowSums };
/// Columns of the sums per sample that workers add up under "sequence".
enum SampleSum : int64_t { kLoss, kCounted, kCorrect, kSampleSums };

bool by_vocabulary(const LayerCall& call) { return call.option && call.option->name == "vocabulary"; }
bool by_sequence(const LayerCall& call) { return call.option && call.option->name == "sequence"; }

/// First class that this worker holds, of `width`.
int64_t first_class(const LayerCall& call, int64_t width) { return by_vocabulary(call) ? width * call.tensor_index : 0; }

/// Per row the largest logit, and the lowest class that attains it, negated so that a maximum over workers finds it.
struct Largest {
  at::Tensor value, negated_class;
};

template <class T>
Largest largest_of(LayerCall& call, const at::Tensor& logits) {
  const int64_t n = logits.size(0), width = logits.size(1), first = first_class(call, width);
  Largest largest{at::empty({n}, logits.options()), at::empty({n}, logits.options())};
  T *top = largest.value.data_ptr<T>(), *hit = largest.negated_class.data_ptr<T>();
  std::vector<int64_t> argmax(size_t(n), 0);
  for (int64_t i = 0; i < n; ++i) {
    const T* row = logits.data_ptr<T>() + i * width;
    int64_t at = 0;
    for (int64_t c = 1; c < width; ++c)
      if (row[c] > row[at]) at = c;
    argmax[size_t(i)] = at;
    top[i] = row[at];
    hit[i] = row[at];  // this worker's own largest, until it is known whether it is everyone's
  }
  if (by_vocabulary(call)) call.tensor_group().all_reduce(largest.value, ReduceOp::max);
  for (int64_t i = 0; i < n; ++i) hit[i] = hit[i] == top[i] ? -T(first + argmax[size_t(i)]) : -std::numeric_limits<T>::infinity();
  if (by_vocabulary(call)) call.tensor_group().all_reduce(largest.negated_class, ReduceOp::max);
  return largest;
}

}  // namespace

/// Replaces `logits` (a private copy, [rows, classes of this worker]) by probabilities; returns the losses, saves each sample's
/// share and reports hits.
template <class T>
at::Tensor SoftmaxCrossEntropy::loss_of(LayerCall& call, at::Tensor& logits, const at::Tensor& labels, int64_t samples) const {
  const int64_t n = logits.size(0), width = logits.size(1), first = first_class(call, width);
  const int64_t positions = samples == 0 ? 0 : n / samples;
  const int64_t* label = labels.data_ptr<int64_t>();
  const Largest largest = largest_of<T>(call, logits);
  logits.sub_(largest.value.unsqueeze(1));
  at::Tensor row_sums = at::zeros({n, int64_t(kRowSums)}, logits.options());
  T* sum = row_sums.data_ptr<T>();
  for (int64_t i = 0; i < n; ++i)
    if (int64_t own = label[i] - first; own >= 0 && own < width)
      sum[i * kRowSums + kLabelLogit] = logits.data_ptr<T>()[i * width + own];
  logits.exp_();
  row_sums.select(1, kExponentials).copy_(logits.sum(1));
  if (by_vocabulary(call)) call.tensor_group().all_reduce(row_sums);
  logits.div_(row_sums.select(1, kExponentials).unsqueeze(1));

  at::Tensor sample_sums = at::zeros({samples, int64_t(kSampleSums)}, logits.options().dtype(at::kDouble));
  const T* hit = largest.negated_class.data_ptr<T>();
  for (int64_t i = 0; i < n; ++i) {
    if (options_.ignore_index && label[i] == *options_.ignore_index) continue;
    double* of_sample = sample_sums.data_ptr<double>() + i / positions * kSampleSums;
    of_sample[kLoss] += double(std::log(sum[i * kRowSums + kExponentials]) - sum[i * kRowSums + kLabelLogit]);
    of_sample[kCounted] += 1;
    of_sample[kCorrect] += hit[i] == -T(label[i]);
  }
  if (by_sequence(call)) call.tensor_group().all_reduce(sample_sums);
  at::Tensor share = sample_sums.select(1, kCounted).clamp_min(1).reciprocal_();
  call.report("correct", at::mul(sample_sums.select(1, kCorrect), share).sum().item<double>());
  call.saved.push_back(share.to(logits.scalar_type()));
  return at::mul(sample_sums.select(1, kLoss), share).to(logits.scalar_type());
}

void SoftmaxCrossEntropy::check_labels(const at::Tensor& labels, int64_t classes) const {
  const int64_t* label = labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i)
    if ((label[i] < 0 || label[i] >= classes) && label[i] != options_.ignore_index)
      fail_shape(*this, fmt::format("label {}", label[i]), fmt::format("with {} classes labels are 0 to {}", classes, classes - 1),
                 "check the dataset's labels or the model's number of classes");
}

Shape SoftmaxCrossEntropy::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  const Shape &logits = inputs[0], &labels = inputs[1];
  if (logits.size() != 1 && logits.size() != 2)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(logits)),
               "logits are [classes] or [positions, classes] per sample", "reshape the input or use another layer");
  if (labels != Shape(logits.begin(), logits.end() - 1))
    fail_shape(*this, fmt::format("label sample shape {} for logits {}", to_string(labels), to_string(logits)),
               logits.size() == 1 ? "a label is one number per sample" : "a label is one number per position",
               "give class indices, not one-hot vectors");
  return {};
}

std::vector<ShardingOption> SoftmaxCrossEntropy::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), classes = Placement::shard(int(inputs[0].size())), sequence = Placement::shard(1);
  if (inputs[0].back() % degree == 0)
    options.push_back({.name = "vocabulary", .inputs = {classes, whole}, .output = whole, .input_gradients = {classes, whole},
                       .divides_work = true, .talks_over_tensor_axis = true});
  if (inputs[0].size() == 2 && inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence", .inputs = {sequence, sequence}, .output = whole, .input_gradients = {sequence, sequence},
                       .divides_work = true, .talks_over_tensor_axis = true});
  return options;
}

double SoftmaxCrossEntropy::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // maximum, difference, exponential, sum
}

at::Tensor SoftmaxCrossEntropy::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& logits = inputs[0];
  const int64_t samples = logits.size(0), width = logits.size(-1), rows = logits.numel() / std::max<int64_t>(width, 1);
  at::Tensor labels = inputs[1].to(at::kLong).reshape({rows}).contiguous();
  check_labels(labels, width * (by_vocabulary(call) ? call.tensor_degree : 1));
  auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor probabilities = logits.to(type, /*non_blocking=*/false, /*copy=*/true).contiguous().view({rows, width});
  call.saved = {probabilities, labels};
  at::Tensor losses = type == at::kDouble ? loss_of<double>(call, probabilities, labels, samples)
                                          : loss_of<float>(call, probabilities, labels, samples);
  call.saved.push_back(saved_shape(logits));
  call.saved.push_back(at::empty({0}, logits.options()));
  return losses;
}

std::vector<at::Tensor> SoftmaxCrossEntropy::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor(), at::Tensor()};
  const at::Tensor &probabilities = call.saved.at(kProbabilities), &labels = call.saved.at(kLabels);
  const int64_t* label = labels.data_ptr<int64_t>();
  const int64_t rows = probabilities.size(0), width = probabilities.size(1), first = first_class(call, width);
  const int64_t samples = output_gradient.size(0);
  at::Tensor gradient = probabilities.clone();
  auto subtract_labels = [&]<class T>(T) {
    T* row = gradient.data_ptr<T>();
    for (int64_t i = 0; i < rows; ++i, row += width) {
      int64_t own = label[i] - first;
      if (options_.ignore_index && label[i] == *options_.ignore_index) std::fill(row, row + width, T(0));
      else if (own >= 0 && own < width) row[own] -= 1;
    }
  };
  if (gradient.scalar_type() == at::kDouble)
    subtract_labels(double{});
  else
    subtract_labels(float{});
  // a single product per element, as without positions
  at::Tensor factor = at::mul(output_gradient.to(gradient.scalar_type()), call.saved.at(kShares));
  const Shape by_position{samples, samples == 0 ? 0 : rows / samples, width};
  gradient.view(by_position).mul_(factor.view({samples, 1, 1}));
  return {gradient.view(restore_shape(call.saved.at(kLogitShape))).to(call.saved.at(kLogitType).scalar_type()), at::Tensor()};
}

}  // namespace trireme
