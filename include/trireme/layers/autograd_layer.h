// AutogradLayer: a layer whose backward is libtorch's autograd, for operators that are not worth a backward of their
// own.
#pragma once

#include <span>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

/// The same memory as a tensor that autograd takes: workers run in inference mode, whose tensors it refuses. For what a
/// subclass's `compute` reads besides its arguments (buffers, state). Writes through either are seen through both.
at::Tensor ordinary_tensor(const at::Tensor& tensor);

/// A subclass gives `compute`; forward records what it does, backward plays it back on the calling thread. The
/// recording lives in the call's saved tensors and ends with the call: it holds the inputs, the parameters as they were
/// read, and what each operator inside keeps (no output unless an operator keeps it). Under zero3 the gathered weights
/// of such a layer therefore stay until its backward. An evaluation records nothing; a backward after one computes its
/// forward again.
///
/// Input gradients may share memory with each other and with the output's. A parameter that the output does not depend
/// on gets a gradient of zeros, such an input none.
class AutogradLayer : public Layer {
 public:
  using Layer::Layer;

  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const final;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const final;

 protected:
  /// The output, of the local shards as the call's option places them; any thread, with or without autograd recording.
  /// Reads parameters from `parameters` only, and must compute the same when it is called again with the same
  /// arguments. Must not write to its arguments. An output of four dims is brought into channels_last order by the
  /// caller.
  virtual at::Tensor compute(LayerCall& call, std::span<const at::Tensor> inputs,
                             std::span<const at::Tensor> parameters) const = 0;

 private:
  /// Runs `compute`; keeps in `call.saved` what backward needs of it.
  at::Tensor record(LayerCall& call, std::span<const at::Tensor> inputs) const;
  /// Gradients of the inputs, then of the parameters; undefined where not wanted or where the output does not depend on
  /// them.
  std::vector<at::Tensor> play_back(LayerCall& call, const at::Tensor& output_gradient) const;
};

}  // namespace trireme
