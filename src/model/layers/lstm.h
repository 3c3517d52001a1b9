// Lstm: one layer of PyTorch's nn.LSTM(batch_first=True), with state that may live on from step to step.
// Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, in the form of PyTorch's documentation.
#pragma once

#include <string>
#include <vector>

#include "model/layer.h"

namespace trireme {

struct LstmOptions {
  bool stateful = false;    ///< starts from the state that the step before left, instead of from zeros
  std::string module = {};  ///< PyTorch's module that the parameters belong to; empty: the layer's name
  int index = 0;            ///< which layer of that module: "<module>.weight_ih_l<index>"
};

/// Input [n, steps, in], output [n, steps, hidden]: per step (i, f, g, o) = w_ih x + b_ih + w_hh h + b_hh,
/// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'). Backward goes through the steps of this call; the state
/// that came in is a constant (truncated back-propagation through time). Under bf16 the cell c is kept in float32.
///
/// Parameters weight_ih [4, hidden, in], weight_hh [4, hidden, hidden], bias_ih and bias_hh [4, hidden], uniform in
/// ±1/sqrt(hidden): PyTorch's [4 * hidden, ...] with the four gates as a dim of their own, the same values in the same order in
/// memory. States h and c, [hidden] each; a recomputing forward leaves them alone.
///
/// Sharded by hidden units: each worker computes all four gates of its units and gathers h over the tensor group before every
/// step; backward adds up and scatters h's gradient in the same place. Input whole, its gradient a sum over workers.
class Lstm : public Layer {
 public:
  Lstm(std::string name, int64_t in, int64_t hidden, LstmOptions options = {});

  std::string_view kind() const override { return options_.stateful ? "stateful_lstm" : "lstm"; }
  std::vector<ParameterSpec> parameters() const override;
  std::vector<StateSpec> states() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  double forward_flops(std::span<const Shape> inputs) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  /// Gradients of the gates before their sigmoids and tanhs, [n, steps, 4, local units].
  at::Tensor through_time(LayerCall& call, const at::Tensor& output_gradient) const;
  void add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& previous,
                               const at::Tensor& gate_gradients) const;

  int64_t in_, hidden_;
  LstmOptions options_;
};

}  // namespace trireme
