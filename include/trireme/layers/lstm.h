// Lstm: one layer of PyTorch's nn.LSTM(batch_first=True), with state that may live on from step to step.
// Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997, in the form of PyTorch's documentation; with a
// projection: Sak, Senior, Beaufays, "Long Short-Term Memory Recurrent Neural Network Architectures for Large Scale
// Acoustic Modeling", 2014.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct LstmOptions {
  bool stateful = false;    ///< starts from the state that the step before left, instead of from zeros
  std::string module = {};  ///< PyTorch's module that the parameters belong to; empty: the layer's name
  int index = 0;            ///< which layer of that module: "<module>.weight_ih_l<index>"
  int64_t projection = 0;   ///< > 0: h is projected to so many features (PyTorch's proj_size)
  bool padding =
      false;  ///< a second input holds the tokens [n, steps] (integers); where one is kPadding, h and c are zero
  bool reverse = false;  ///< goes through the sequence from its end: PyTorch's second direction, "..._l<index>_reverse"
};

/// Input [n, steps, in], output [n, steps, hidden]: per step (i, f, g, o) = w_ih x + b_ih + w_hh h + b_hh,
/// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'); with a projection h' = w_hr (sigmoid(o) tanh(c'))
/// and the output is [n, steps, projection]. Backward goes through the steps of this call; the state that came in is a
/// constant (truncated back-propagation through time). Under bf16 the cell c is kept in float32.
///
/// Parameters weight_ih [4, hidden, in], weight_hh [4, hidden, hidden or projection], bias_ih and bias_hh [4, hidden],
/// and with a projection weight_hr [projection, hidden], uniform in ±1/sqrt(hidden): PyTorch's [4 * hidden, ...] with
/// the four gates as a dim of their own, the same values in the same order in memory. States h (as the output) and c
/// [hidden]; a recomputing forward leaves them alone.
///
/// Sharded by hidden units: each worker computes all four gates of its units and gathers h over the tensor group before
/// every step; backward adds up and scatters h's gradient in the same place. Input whole, its gradient a sum over
/// workers. With a projection each worker projects its units and h, the sum, is whole on all of them, as is the output:
/// an all-reduce of h per step, and one of its gradient.
///
/// With `padding` a reversed layer begins with a sentence's last word, and what stands behind one is zero: PyTorch's
/// packed sequences. Errors: user error when a reversed layer is to carry state (a stream has no end to begin from).
class Lstm : public Layer {
 public:
  Lstm(std::string name, int64_t in, int64_t hidden, LstmOptions options = {});

  std::string_view kind() const override { return options_.stateful ? "stateful_lstm" : "lstm"; }
  Attributes attributes() const override;
  std::vector<ParameterSpec> parameters() const override;
  std::vector<StateSpec> states() const override;
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const override;
  std::optional<int64_t> integers_below(std::span<const Shape>, size_t index) const override {
    return index == 1 ? std::optional<int64_t>(0) : std::nullopt;
  }
  double forward_flops(std::span<const Shape> inputs) const override;
  LayerMemory memory(const CallShapes& call) const override;
  std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const override;
  LayerExchanges exchanges(const CallShapes& call) const override;
  std::string to_onnx(OnnxWriter& writer) const override;
  void to_script(ScriptWriter& writer) const override;
  at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const override;
  std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const override;
  bool splits_backward() const override { return true; }
  void backward_parameters(LayerCall& call) const override;

 private:
  int input_count() const { return options_.padding ? 2 : 1; }
  int parameter_count() const { return options_.projection > 0 ? 5 : 4; }
  int64_t output_width() const { return options_.projection > 0 ? options_.projection : hidden_; }
  /// Position in the sequence of the k-th step.
  int64_t position(int64_t k, int64_t steps) const { return options_.reverse ? steps - 1 - k : k; }
  /// Fills output, h before each step, c before and after each, activated gates, and with a projection the units' h.
  void run_steps(LayerCall& call) const;
  /// Gradients of the gates before their sigmoids and tanhs, [n, steps, 4, local units]; with a projection also those
  /// of h [n, steps, projection].
  struct Gradients {
    at::Tensor gates, projected;
  };
  Gradients through_time(LayerCall& call, const at::Tensor& output_gradient) const;
  void add_parameter_gradients(LayerCall& call) const;
  /// The layer written down step by step, for sequences with padding.
  void script_steps(ScriptWriter& writer) const;

  int64_t in_, hidden_;
  LstmOptions options_;
};

}  // namespace trireme
