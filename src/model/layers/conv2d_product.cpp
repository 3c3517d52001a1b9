#include "model/layers/conv2d_product.h"

#include <ATen/ATen.h>

#include "model/layers/common.h"

namespace trireme {
namespace {

// A product is faster if the number of output channels per output pixel of the local batch is at least this. Measured
// on ResNet-18's shapes: oneDNN's reordering of bfloat16 weights costs as much as tens of products, that of float32
// weights far less.
constexpr double kPaysBfloat16 = 1.0 / 9, kPaysFloat = 1.0;
// Number of input channels in a vector of oneDNN's 1x1 kernels on CPUs with AVX-512; 8 with AVX2.
constexpr int64_t kVectorChannels = 16;

/// Returns the kernel positions of one dim that read the image from at least one output position; empty if all read
/// only padding.
Range used_taps(int64_t kernel, int64_t extent, int64_t outputs, int64_t stride, int64_t padding) {
  Range taps{kernel, 0};
  for (int64_t tap = 0; tap < kernel; ++tap)
    for (int64_t out = 0; out < outputs; ++out) {
      const int64_t at = out * stride - padding + tap;
      if (at < 0 || at >= extent) continue;
      taps.begin = std::min(taps.begin, tap);
      taps.end = tap + 1;
    }
  return taps.empty() ? Range{} : taps;
}

at::Tensor pixels(const at::Tensor& images) {  // [n, c, h, w] channels_last -> [n*h*w, c], no copy
  return images.permute({0, 2, 3, 1}).reshape({-1, images.size(1)});
}

}  // namespace

ConvolutionProduct::ConvolutionProduct(const at::Tensor& input, const at::Tensor& weight, Size2d stride,
                                       int64_t padding_y, int64_t padding_x)
    : input_(input), weight_(weight) {
  const int64_t kernel_y = weight.size(2), kernel_x = weight.size(3);
  shape_ = {.n = input.size(0),
            .height = input.size(2),
            .width = input.size(3),
            .channels = input.size(1),
            .out_height = (input.size(2) + 2 * padding_y - kernel_y) / stride.height + 1,
            .out_width = (input.size(3) + 2 * padding_x - kernel_x) / stride.width + 1,
            .stride_y = stride.height,
            .stride_x = stride.width,
            .padding_y = padding_y,
            .padding_x = padding_x};
  const Range y = used_taps(kernel_y, shape_.height, shape_.out_height, stride.height, padding_y);
  const Range x = used_taps(kernel_x, shape_.width, shape_.out_width, stride.width, padding_x);
  shape_.tap_y0 = y.begin, shape_.tap_y1 = y.end, shape_.tap_x0 = x.begin, shape_.tap_x1 = x.end;
}

bool ConvolutionProduct::pays() const {
  if (!all_taps() || overruns_directly()) return true;
  const double least = input_.scalar_type() == at::kBFloat16 ? kPaysBfloat16 : kPaysFloat;
  return double(weight_.size(0)) >= least * double(shape_.rows());
}

bool ConvolutionProduct::overruns_directly() const {
  return weight_.size(2) == 1 && weight_.size(3) == 1 && std::max(shape_.stride_y, shape_.stride_x) > 1 &&
         shape_.channels < kVectorChannels;
}

at::Tensor ConvolutionProduct::taps_of(const at::Tensor& weight_like) const {
  return weight_like.permute({0, 2, 3, 1})
      .slice(1, shape_.tap_y0, shape_.tap_y1)
      .slice(2, shape_.tap_x0, shape_.tap_x1);
}

at::Tensor ConvolutionProduct::matrix() const { return taps_of(weight_).reshape({weight_.size(0), shape_.columns()}); }

bool ConvolutionProduct::reads_in_place() const {
  return shape_.taps() == 1 && shape_.stride_y == 1 && shape_.stride_x == 1 && shape_.out_height == shape_.height &&
         shape_.out_width == shape_.width;
}

at::Tensor ConvolutionProduct::rows() const {
  if (reads_in_place()) return pixels(input_);
  at::Tensor rows = at::empty({shape_.rows(), shape_.columns()}, input_.options().memory_format(c10::nullopt));
  kernels::unfold(shape_, input_.data_ptr(), rows.data_ptr(), input_.element_size());
  return rows;
}

at::Tensor ConvolutionProduct::forward(const c10::optional<at::Tensor>& bias) const {
  at::Tensor output =
      empty_in_layout({shape_.n, weight_.size(0), shape_.out_height, shape_.out_width}, input_.options());
  at::Tensor flat = pixels(output);
  if (bias) at::addmm_out(flat, *bias, rows(), matrix().t());
  else at::mm_out(flat, rows(), matrix().t());
  return output;
}

at::Tensor ConvolutionProduct::input_gradient(const at::Tensor& output_gradient) const {
  at::Tensor rows = at::mm(pixels(output_gradient), matrix());
  at::Tensor images = empty_in_layout(input_.sizes(), input_.options());
  switch (images.scalar_type()) {
    case at::kFloat: kernels::fold(shape_, rows.data_ptr<float>(), images.data_ptr<float>()); break;
    case at::kDouble: kernels::fold(shape_, rows.data_ptr<double>(), images.data_ptr<double>()); break;
    default:
      kernels::fold_bfloat16(shape_, static_cast<const uint16_t*>(rows.data_ptr()),
                             static_cast<uint16_t*>(images.data_ptr()));
  }
  return images;
}

void ConvolutionProduct::weight_gradient(const at::Tensor& output_gradient, LayerCall& call, int index) const {
  auto target = call.gradient_target(index);
  at::Tensor view = taps_of(target.tensor);
  const at::Tensor left = pixels(output_gradient).t();
  const bool in_place = all_taps() && view.is_contiguous() && view.scalar_type() == left.scalar_type();
  if (in_place) {
    at::Tensor flat = view.view({weight_.size(0), shape_.columns()});
    if (target.accumulate) flat.addmm_(left, rows());
    else at::mm_out(flat, left, rows());
    return;
  }
  if (!target.accumulate && !all_taps()) target.tensor.zero_();
  at::Tensor gradient = at::mm(left, rows()).view(view.sizes());
  if (target.accumulate) view.add_(gradient);
  else view.copy_(gradient);
}

}  // namespace trireme
