// A convolution as one matrix product over unfolded images.
//
// If an image has few pixels and many weights (the last blocks of a ResNet on small images), a direct convolution
// spends its time on reordering the weights in each call. A product reads them as they are in channels_last order. Taps
// that read only padding (a 3x3 kernel on 1x1 images) are left out. Only for the CPU: the host unfolds the images.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/kernels/im2col.h"
#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

class ConvolutionProduct {
 public:
  /// input [n, c, h, w] and weight [out, c, kernel height, width] in channels_last order, n > 0, no groups.
  /// `padding_y`: rows above and below; `padding_x`: columns left and right.
  ConvolutionProduct(const at::Tensor& input, const at::Tensor& weight, Size2d stride, int64_t padding_y,
                     int64_t padding_x);

  /// True if the product is expected to be faster than a direct convolution, or must replace it. Depends only on the
  /// shapes, never on a measurement: all workers, and every run, must choose alike.
  bool pays() const;

  /// Elements of the unfolded images that each product creates; 0 if it reads the images in place.
  int64_t unfolded_elements() const { return reads_in_place() ? 0 : shape_.rows() * shape_.columns(); }

  at::Tensor forward(const c10::optional<at::Tensor>& bias) const;
  at::Tensor input_gradient(const at::Tensor& output_gradient) const;
  /// Adds the weight's gradient (parameter `index`) to the call's.
  void weight_gradient(const at::Tensor& output_gradient, LayerCall& call, int index) const;

 private:
  at::Tensor rows() const;    ///< unfolded input [pixels, taps * c]
  at::Tensor matrix() const;  ///< weight of the taps in use [out, taps * c]
  /// True where oneDNN 2.6 writes past the end of its scratch memory and corrupts the heap: 1x1 kernels with a stride
  /// over 1 and fewer input channels in channels_last order than a vector holds (seen with AVX2, below 8 channels;
  /// PyTorch 1.13 crashes too).
  bool overruns_directly() const;
  bool reads_in_place() const;  ///< a row of the product is a pixel: 1x1 taps with stride 1
  bool all_taps() const { return shape_.taps() == weight_.size(2) * weight_.size(3); }
  at::Tensor taps_of(const at::Tensor& weight_like) const;  ///< view [out, taps y, taps x, c]

  at::Tensor input_, weight_;
  kernels::Unfolding shape_;
};

}  // namespace trireme
