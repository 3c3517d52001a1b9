#include "trireme/layers/pixel_cross_entropy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/devices/device.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

/// Saved tensors: logarithms of probabilities [pixels, classes], labels [pixels], 1 / number of counted pixels per
/// image [n], the logits' shape, and an empty tensor of their dtype.
enum PixelSaved { kPixelLogarithms, kPixelLabels, kPixelShares, kPixelLogitShape, kPixelLogitType };

/// Sums per image and per class; workers that share images add them up.
enum PixelImageSum : int64_t { kPixelLoss, kPixelCounted, kPixelCorrect, kPixelImageSums };
enum PixelClassSum : int64_t { kPixelIntersection, kPixelPredicted, kPixelLabelled, kPixelClassSums };

struct Sums {
  Sums(int64_t images, int64_t classes, c10::Device device)
      : all(at::zeros({images * kPixelImageSums + classes * kPixelClassSums},
                      at::TensorOptions().dtype(at::kDouble).device(device))),
        by_image(all.narrow(0, 0, images * kPixelImageSums).view({images, kPixelImageSums})),
        by_class(all.narrow(0, images * kPixelImageSums, classes * kPixelClassSums).view({classes, kPixelClassSums})) {}

  at::Tensor all, by_image, by_class;
};

/// Adds the pixels of all images to the sums.
template <class T>
void add_pixels(const at::Tensor& logarithms, const at::Tensor& labels, Sums& sums) {
  const int64_t images = sums.by_image.size(0), classes = logarithms.size(1),
                pixels = images == 0 ? 0 : labels.numel() / images;
  const T* row = logarithms.data_ptr<T>();
  const int64_t* label = labels.data_ptr<int64_t>();
  double* of_class = sums.by_class.data_ptr<double>();
  for (int64_t i = 0; i < images; ++i) {
    double* of_image = sums.by_image.data_ptr<double>() + i * kPixelImageSums;
    for (int64_t p = 0; p < pixels; ++p, ++label, row += classes) {
      if (*label < 0) continue;
      const int64_t predicted = std::max_element(row, row + classes) - row;
      const bool is_right = predicted == *label && !std::isnan(row[predicted]);
      of_image[kPixelLoss] -= double(row[*label]);
      of_image[kPixelCounted] += 1;
      of_image[kPixelCorrect] += is_right;
      of_class[predicted * kPixelClassSums + kPixelPredicted] += 1;
      of_class[*label * kPixelClassSums + kPixelLabelled] += 1;
      of_class[*label * kPixelClassSums + kPixelIntersection] += is_right;
    }
  }
}

/// add_pixels for tensors that the host cannot read. A label of `classes` or more makes the loss NaN.
void add_pixels_on_device(const at::Tensor& logarithms, const at::Tensor& labels, Sums& sums) {
  const int64_t images = sums.by_image.size(0), classes = logarithms.size(1);
  if (labels.numel() == 0) return;
  const at::Tensor label = labels.view({-1}), is_counted = label.ge(0);
  const auto [largest, predicted] = at::max(logarithms, 1);
  const at::Tensor is_right = at::logical_and(predicted.eq(label), largest.isnan().logical_not_());
  const at::Tensor loss = logarithms.gather(1, label.clamp(0, classes - 1).unsqueeze(1))
                              .squeeze(1)
                              .neg_()
                              .masked_fill_(label.ge(classes), std::numeric_limits<double>::quiet_NaN())
                              .masked_fill_(is_counted.logical_not(), 0);
  const auto of_images = [&](PixelImageSum sum, const at::Tensor& of_pixels) {
    sums.by_image.select(1, sum).copy_(of_pixels.view({images, -1}).sum(1, /*keepdim=*/false, at::kDouble));
  };
  of_images(kPixelLoss, loss);
  of_images(kPixelCounted, is_counted);
  of_images(kPixelCorrect, is_right);
  // Three histograms in one: each sum's classes have bins of their own, which pixels hit in the middle. Pixels that do
  // not count in a sum are beyond the last bin.
  const int64_t bins = classes * kPixelClassSums;
  const at::Tensor bin = at::stack({at::where(is_right, label, bins), at::where(is_counted, predicted + classes, bins),
                                    at::where(is_counted, label + 2 * classes, bins)});
  const at::Tensor counts = at::histc(bin.to(at::kDouble).add_(0.5), bins, 0, bins);
  sums.by_class.copy_(counts.view({kPixelClassSums, classes}).t());
}

/// report_classes and subtract_labels, likewise.
void report_classes_on_device(LayerCall& call, const at::Tensor& by_class) {
  const at::Tensor both = by_class.select(1, kPixelIntersection),
                   either = at::add(by_class.select(1, kPixelPredicted), by_class.select(1, kPixelLabelled)).sub_(both);
  for (int64_t k = 0; k < by_class.size(0); ++k) {
    call.report(fmt::format("intersection.{}", k), both[k]);
    call.report(fmt::format("union.{}", k), either[k]);
  }
}

void subtract_labels_on_device(at::Tensor& probabilities, const at::Tensor& labels) {
  const at::Tensor label = labels.view({-1, 1}), column = label.clamp(0, probabilities.size(1) - 1);
  probabilities.scatter_(1, column, probabilities.gather(1, column).sub_(1)).mul_(label.ge(0));
}

void report_classes(LayerCall& call, const at::Tensor& by_class) {
  if (!on_host(by_class)) return report_classes_on_device(call, by_class);
  const double* sums = by_class.data_ptr<double>();
  for (int64_t k = 0; k < by_class.size(0); ++k, sums += kPixelClassSums) {
    call.report(fmt::format("intersection.{}", k), sums[kPixelIntersection]);
    call.report(fmt::format("union.{}", k), sums[kPixelPredicted] + sums[kPixelLabelled] - sums[kPixelIntersection]);
  }
}

/// Subtracts 1 from the label's column of each row; rows that are not counted become zero.
template <class T>
void subtract_labels(at::Tensor& probabilities, const at::Tensor& labels) {
  const int64_t classes = probabilities.size(1);
  const int64_t* label = labels.data_ptr<int64_t>();
  T* row = probabilities.data_ptr<T>();
  for (int64_t p = 0; p < labels.numel(); ++p, row += classes) {
    if (label[p] < 0) std::fill(row, row + classes, T(0));
    else row[label[p]] -= T(1);
  }
}

}  // namespace

Shape PixelCrossEntropy::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  const Shape &logits = inputs[0], &labels = inputs[1];
  expect_rank(*this, logits, 3, "[classes, height, width]");
  if (labels != Shape(logits.begin() + 1, logits.end()))
    fail_shape(*this, fmt::format("label sample shape {} for logits {}", to_string(labels), to_string(logits)),
               "a label is one number per pixel", "resize masks and logits to one size");
  return {};
}

std::vector<ShardingOption> PixelCrossEntropy::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2)};
  if (degree == 1 || inputs[0][1] % degree != 0) return options;
  ShardingOption height = height_option(2, Placement::replicate(), 0, 0, /*communicates=*/true);
  height.inputs[1] = height.input_gradients[1] = Placement::shard(1);  // labels have no channels
  options.push_back(std::move(height));
  return options;
}

double PixelCrossEntropy::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // maximum, difference, exponential, sum
}

void PixelCrossEntropy::check_labels(const at::Tensor& labels, int64_t classes) const {
  const int64_t *begin = labels.data_ptr<int64_t>(), *end = begin + labels.numel();
  const int64_t* wrong = std::find_if(begin, end, [&](int64_t label) { return label >= classes; });
  if (wrong == end) return;
  fail_shape(
      *this, fmt::format("label {}", *wrong),
      fmt::format("with {} classes labels are 0 to {}, or negative if a pixel is not counted", classes, classes - 1),
      "check the dataset's masks or the model's number of classes");
}

at::Tensor PixelCrossEntropy::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor logits = in_layout(inputs[0]);
  const int64_t images = logits.size(0), classes = logits.size(1);
  const at::Tensor labels = inputs[1].to(at::kLong).contiguous();
  if (on_host(labels)) check_labels(labels, classes);
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor rows = logits.permute({0, 2, 3, 1}).reshape({labels.numel(), classes}).to(type);
  const at::Tensor logarithms = at::_log_softmax(rows, 1, /*half_to_float=*/false);
  Sums sums(images, classes, logits.device());
  if (!on_host(logits)) add_pixels_on_device(logarithms, labels, sums);
  else if (type == at::kDouble) add_pixels<double>(logarithms, labels, sums);
  else add_pixels<float>(logarithms, labels, sums);
  if (is_split_by_height(call)) call.tensor_group().all_reduce(sums.all);
  report_classes(call, sums.by_class);
  const at::Tensor shares = sums.by_image.select(1, kPixelCounted).clamp_min(1).reciprocal_();
  call.report("correct", at::mul(sums.by_image.select(1, kPixelCorrect), shares).sum());
  call.saved = {logarithms, labels, shares.to(type), saved_shape(logits), at::empty({0}, logits.options())};
  return at::mul(sums.by_image.select(1, kPixelLoss), shares).to(type);
}

std::vector<at::Tensor> PixelCrossEntropy::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor(), at::Tensor()};
  const Shape shape = restore_shape(call.saved.at(kPixelLogitShape));
  at::Tensor gradient = call.saved.at(kPixelLogarithms).exp();
  if (!on_host(gradient)) subtract_labels_on_device(gradient, call.saved.at(kPixelLabels));
  else if (gradient.scalar_type() == at::kDouble) subtract_labels<double>(gradient, call.saved.at(kPixelLabels));
  else subtract_labels<float>(gradient, call.saved.at(kPixelLabels));
  gradient = gradient.view({shape[0], shape[2], shape[3], shape[1]});
  gradient.mul_(
      at::mul(output_gradient.to(gradient.scalar_type()), call.saved.at(kPixelShares)).view({shape[0], 1, 1, 1}));
  return {in_layout(gradient.permute({0, 3, 1, 2}).to(call.saved.at(kPixelLogitType).scalar_type())), at::Tensor()};
}

LayerMemory PixelCrossEntropy::memory(const CallShapes& call) const {
  constexpr int64_t kDouble = 8;
  LayerMemory memory = plain_memory(call);
  const CallTensor& logits = call.inputs[0];
  const bool mixed = call.compute != call.master;
  const int64_t floats = logits.count() * call.master;
  memory.keeps_input[1] = true;
  memory.saved = floats + call.samples * call.master + shape_bytes(logits);
  memory.input_gradients[1] = 0;
  const int64_t classes = logits.shape[1], sums = (kPixelClassSums * classes + 5 * call.samples) * kDouble;
  set_forward_peak(memory, {floats + (mixed ? floats : 0) + sums});
  set_backward_peak(memory, {floats + (mixed ? logits.bytes() : 0)});
  return memory;
}

std::vector<OperatorWork> PixelCrossEntropy::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 3, false);  // maximum, exponentials and sum, look-up
}

/// Sums per image and per class.
LayerExchanges PixelCrossEntropy::exchanges(const CallShapes& call) const {
  constexpr double kDouble = 8;
  const auto classes = double(call.inputs[0].shape[1]);
  return {{{RedistributionKind::all_reduce, (double(call.samples) + classes) * double(kPixelClassSums) * kDouble}}, {}};
}

}  // namespace trireme
