// Common parts of pools with windows that may overlap: PyTorch's nn.MaxPool2d and nn.AvgPool2d.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"
#include "trireme/layers/size2d.h"

namespace trireme {

struct Halo;
struct Window;

class Pool2d : public Layer {
 public:
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool ends_block() const override { return true; }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;

 protected:
  Pool2d(std::string name, Size2d kernel, Size2d stride, Size2d padding, bool ceil_mode)
      : Layer(std::move(name)), kernel_(kernel), stride_(stride), padding_(padding), ceil_mode_(ceil_mode) {}
  /// Throws a user error for sizes that no window can have. For constructors: the message names the kind.
  void check_sizes() const;

  Window rows() const;                          ///< along an image's height
  Window columns() const;                       ///< along its width
  Halo halo(const LayerCall& call) const;       ///< rows that the call borrows from its neighbours
  Size2d padding(const LayerCall& call) const;  ///< the padding that the halo does not replace
  /// Options by channels and, if `by_height`, by rows, with a halo if windows overlap.
  std::vector<ShardingOption> pool_options(const Shape& input, int degree, bool by_height) const;
  /// Returns the output for zero samples. `input`: the layer's input; `extended`: the input with its halo.
  at::Tensor empty_output(const at::Tensor& input, const at::Tensor& extended) const;
  /// Returns the gradient of this worker's rows: sends the neighbours their rows of the extended input's gradient and
  /// adds the rows that they send.
  at::Tensor own_gradient(LayerCall& call, const at::Tensor& extended) const;

  const Size2d kernel_, stride_, padding_;
  const bool ceil_mode_;
};

}  // namespace trireme
