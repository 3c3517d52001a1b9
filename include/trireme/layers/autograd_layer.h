// AutogradLayer: a layer whose backward is libtorch's autograd. For operators that do not justify a handwritten
// backward.
#pragma once

#include <span>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// Returns a tensor with the same memory that autograd accepts. (Workers run in inference mode, whose tensors autograd
/// rejects.) For tensors that a subclass's `compute` reads besides its arguments (buffers, state). A write through
/// either tensor is visible through both.
at::Tensor ordinary_tensor(const at::Tensor& tensor);

/// A subclass implements `compute`. forward records what it does; backward runs the recording backwards on the calling
/// thread. The recording is part of the call's saved tensors and ends with the call. It holds the inputs, the
/// parameters as they were read, and what each operator inside retains (no output, unless an operator retains it).
/// Under zero3 the gathered weights of such a layer are therefore retained until its backward. An evaluation records
/// nothing; a backward after one computes its forward again.
///
/// Input gradients may share memory with each other and with the output's gradient. If the output does not depend on a
/// parameter, the gradient of that parameter is zero; if it does not depend on an input, the gradient of that input is
/// undefined.
class AutogradLayer : public Layer {
 public:
  using Layer::Layer;

  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const final;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const final;

 protected:
  /// Returns the output from the local shards, placed as the call's option states. Must be thread-safe and must work
  /// with and without autograd recording. Reads parameters from `parameters` only, and must compute the same if it is
  /// called again with the same arguments. Must not write to its arguments. The caller converts an output of four dims
  /// to channels_last order.
  virtual at::Tensor compute(LayerCall& call, std::span<const at::Tensor> inputs,
                             std::span<const at::Tensor> parameters) const = 0;

 private:
  /// Runs `compute`; saves in `call.saved` what backward needs.
  at::Tensor record(LayerCall& call, std::span<const at::Tensor> inputs) const;
  /// Returns the gradients of the inputs, then of the parameters; undefined if not wanted or if the output does not
  /// depend on them.
  std::vector<at::Tensor> play_back(LayerCall& call, const at::Tensor& output_gradient) const;
};

}  // namespace trireme
