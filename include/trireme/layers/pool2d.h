// What pools of windows that may overlap have in common: PyTorch's nn.MaxPool2d and nn.AvgPool2d.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/halo.h"
#include "trireme/layers/size2d.h"

namespace trireme {

class Pool2d : public Layer {
 public:
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool ends_block() const override { return true; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;

 protected:
  Pool2d(std::string name, Size2d kernel, Size2d stride, Size2d padding, bool ceil_mode)
      : Layer(std::move(name)), kernel_(kernel), stride_(stride), padding_(padding), ceil_mode_(ceil_mode) {}
  /// Errors (user): sizes that no window can have. For constructors: the message names the kind.
  void check_sizes() const;

  Window rows() const {
    return {.kernel = kernel_.height, .stride = stride_.height, .padding = padding_.height, .ceil = ceil_mode_};
  }
  Window columns() const {
    return {.kernel = kernel_.width, .stride = stride_.width, .padding = padding_.width, .ceil = ceil_mode_};
  }
  Halo halo(const LayerCall& call) const { return is_split_by_height(call) ? halo_of(rows()) : Halo{}; }
  /// Padding that the halo does not bring.
  Size2d padding(const LayerCall& call) const {
    return {is_split_by_height(call) ? 0 : padding_.height, padding_.width};
  }
  /// By channels, and where `by_height` by rows with a halo where windows overlap.
  std::vector<ShardingOption> pool_options(const Shape& input, int degree, bool by_height) const;
  /// Of no samples; `input`: as it came, `extended`: with its halo.
  at::Tensor empty_output(const at::Tensor& input, const at::Tensor& extended) const;
  /// Sends the neighbours their rows of the extended input's gradient, adds what they have for this worker's.
  at::Tensor own_gradient(LayerCall& call, const at::Tensor& extended) const;

  const Size2d kernel_, stride_, padding_;
  const bool ceil_mode_;
};

}  // namespace trireme
