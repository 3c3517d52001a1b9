#include "model/layers/softmax_cross_entropy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

enum Saved { kProbabilities, kLabels, kLogitType };

bool by_vocabulary(const LayerCall& call) { return call.option && call.option->inputs[0].is_shard(); }

void check_labels(const Layer& layer, const at::Tensor& labels, int64_t classes) {
  const int64_t* label = labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.numel(); ++i)
    if (label[i] < 0 || label[i] >= classes)
      fail_shape(layer, fmt::format("label {}", label[i]), fmt::format("with {} classes labels are 0 to {}", classes, classes - 1),
                 "check the dataset's labels or the model's number of classes");
}

/// One row of logits after the shift by the (global) maximum: exponentials in place. Returns their sum.
template <class T>
T exponentials(T* row, int64_t classes, T maximum) {
  T sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += row[c] = std::exp(row[c] - maximum);
  return sum;
}

/// Columns of the per-sample sums that workers add up under "vocabulary".
enum Sum : int64_t { kExponentials, kLabelLogit, kSums };

/// Replaces `logits` (a private copy; classes first .. first + width - 1) by probabilities; returns the losses and reports hits.
template <class T>
at::Tensor loss_of(LayerCall& call, at::Tensor& logits, const at::Tensor& labels, int64_t first) {
  const int64_t n = logits.size(0), width = logits.size(1);
  const bool shared = by_vocabulary(call);
  const int64_t* label = labels.data_ptr<int64_t>();
  T* rows = logits.data_ptr<T>();
  at::Tensor maximum = at::empty({n}, logits.options()), best = at::empty({n}, logits.options());
  at::Tensor sums = at::zeros({n, int64_t(kSums)}, logits.options()), losses = at::empty({n}, logits.options());
  T *top = maximum.data_ptr<T>(), *hit = best.data_ptr<T>(), *sum = sums.data_ptr<T>(), *loss = losses.data_ptr<T>();

  std::vector<int64_t> argmax(size_t(n), 0);
  for (int64_t i = 0; i < n; ++i) {
    const T* row = rows + i * width;
    int64_t at = 0;
    for (int64_t c = 1; c < width; ++c)
      if (row[c] > row[at]) at = c;
    argmax[size_t(i)] = at;
    top[i] = row[at];
  }
  if (shared) call.tensor_group().all_reduce(maximum, ReduceOp::max);
  // the lowest class that attains the maximum, negated so that a maximum finds it
  for (int64_t i = 0; i < n; ++i) {
    bool mine = rows[i * width + argmax[size_t(i)]] == top[i];
    hit[i] = mine ? -T(first + argmax[size_t(i)]) : -std::numeric_limits<T>::infinity();
  }
  if (shared) call.tensor_group().all_reduce(best, ReduceOp::max);
  for (int64_t i = 0; i < n; ++i) {
    T* row = rows + i * width;
    int64_t own = label[i] - first;
    if (own >= 0 && own < width) sum[i * kSums + kLabelLogit] = row[own] - top[i];
    sum[i * kSums + kExponentials] = exponentials(row, width, top[i]);
  }
  if (shared) call.tensor_group().all_reduce(sums);
  double correct = 0;
  for (int64_t i = 0; i < n; ++i) {
    T total = sum[i * kSums + kExponentials];
    loss[i] = std::log(total) - sum[i * kSums + kLabelLogit];
    for (int64_t c = 0; c < width; ++c) rows[i * width + c] /= total;
    correct += hit[i] == -T(label[i]);
  }
  call.report("correct", correct);
  return losses;
}

}  // namespace

Shape SoftmaxCrossEntropy::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  expect_rank(*this, inputs[0], 1, "[classes]");
  if (!inputs[1].empty())
    fail_shape(*this, fmt::format("label sample shape {}", to_string(inputs[1])), "a label is one number per sample",
               "give class indices, not one-hot vectors");
  return {};
}

std::vector<ShardingOption> SoftmaxCrossEntropy::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2)};
  if (degree == 1 || inputs[0][0] % degree != 0) return options;
  const Placement whole = Placement::replicate(), classes = Placement::shard(1);
  options.push_back({.name = "vocabulary", .inputs = {classes, whole}, .output = whole, .input_gradients = {classes, whole},
                     .divides_work = true, .talks_over_tensor_axis = true});
  return options;
}

double SoftmaxCrossEntropy::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // maximum, difference, exponential, sum
}

at::Tensor SoftmaxCrossEntropy::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& logits = inputs[0];
  int64_t width = logits.size(1), first = by_vocabulary(call) ? width * call.tensor_index : 0;
  int64_t classes = by_vocabulary(call) ? width * call.tensor_degree : width;
  at::Tensor labels = inputs[1].to(at::kLong).contiguous();
  check_labels(*this, labels, classes);
  auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor probabilities = logits.to(type, /*non_blocking=*/false, /*copy=*/true).contiguous();
  at::Tensor losses = type == at::kDouble ? loss_of<double>(call, probabilities, labels, first)
                                          : loss_of<float>(call, probabilities, labels, first);
  call.saved = {probabilities, labels, at::empty({0}, logits.options())};
  return losses;
}

std::vector<at::Tensor> SoftmaxCrossEntropy::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor(), at::Tensor()};
  const at::Tensor& probabilities = call.saved.at(kProbabilities);
  const int64_t* label = call.saved.at(kLabels).data_ptr<int64_t>();
  int64_t n = probabilities.size(0), width = probabilities.size(1);
  int64_t first = by_vocabulary(call) ? width * call.tensor_index : 0;
  at::Tensor gradient = probabilities.clone();
  auto subtract_labels = [&]<class T>(T) {
    T* rows = gradient.data_ptr<T>();
    for (int64_t i = 0; i < n; ++i) {
      int64_t own = label[i] - first;
      if (own >= 0 && own < width) rows[i * width + own] -= 1;
    }
  };
  if (gradient.scalar_type() == at::kDouble)
    subtract_labels(double{});
  else
    subtract_labels(float{});
  gradient.mul_(output_gradient.to(gradient.scalar_type()).unsqueeze(1));
  return {gradient.to(call.saved.at(kLogitType).scalar_type()), at::Tensor()};
}

}  // namespace trireme
