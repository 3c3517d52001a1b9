// A convolution as one matrix product over unfolded images.
//
// Where an image has few pixels and the weights are many (the last blocks of a ResNet on small images), a direct
// convolution spends its time on bringing the weights into its own order and back in each call; a product reads them as
// they lie in channels_last order. Taps that only ever see padding (a 3x3 kernel on 1x1 images) are left out.
#pragma once

#include <ATen/core/Tensor.h>

#include "model/kernels/im2col.h"
#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

class ConvolutionProduct {
 public:
  /// input [n, c, h, w] and weight [out, c, kernel height, width] in channels_last order, n > 0, no groups. Padding of
  /// rows above and below, and of columns left and right.
  ConvolutionProduct(const at::Tensor& input, const at::Tensor& weight, Size2d stride, int64_t padding_y,
                     int64_t padding_x);

  /// Whether the product is expected to be faster than a direct convolution, or must stand in for it. A function of the
  /// shapes only, never of a measurement: all workers must choose alike, and every run the same.
  bool pays() const;

  /// Elements of the unfolded images that each product makes anew; 0 where it reads the images as they lie.
  int64_t unfolded_elements() const { return reads_in_place() ? 0 : shape_.rows() * shape_.columns(); }

  at::Tensor forward(const c10::optional<at::Tensor>& bias) const;
  at::Tensor input_gradient(const at::Tensor& output_gradient) const;
  /// Adds the weight's gradient (parameter `index`) to the call's.
  void weight_gradient(const at::Tensor& output_gradient, LayerCall& call, int index) const;

 private:
  at::Tensor rows() const;    ///< unfolded input [pixels, taps * c]
  at::Tensor matrix() const;  ///< weight of the taps in use [out, taps * c]
  /// oneDNN 2.6 writes past the end of its scratch memory, and ends in a corrupted heap, for 1x1 kernels of a stride
  /// over 1 and fewer input channels in channels_last order than a vector has (seen with AVX2, below 8 channels;
  /// PyTorch 1.13 crashes alike).
  bool overruns_directly() const;
  bool reads_in_place() const;  ///< a row is a pixel: 1x1 taps with stride 1
  bool all_taps() const { return shape_.taps() == weight_.size(2) * weight_.size(3); }
  at::Tensor taps_of(const at::Tensor& weight_like) const;  ///< view [out, taps y, taps x, c]

  at::Tensor input_, weight_;
  kernels::Unfolding shape_;
};

}  // namespace trireme
