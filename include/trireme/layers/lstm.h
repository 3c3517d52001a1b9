// Lstm: one layer of PyTorch's nn.LSTM(batch_first=True), whose state can continue from step to step. Hochreiter and
// Schmidhuber, "Long Short-Term Memory", 1997, in the form of PyTorch's documentation; with a projection: Sak, Senior,
// Beaufays, "Long Short-Term Memory Recurrent Neural Network Architectures for Large Scale Acoustic Modeling", 2014.
#pragma once

#include <string>
#include <vector>

#include "trireme/layer.h"

namespace trireme {

struct LstmOptions {
  bool stateful = false;    ///< starts from the state of the previous step instead of from zeros
  std::string module = {};  ///< the PyTorch module that the parameters belong to; empty: the layer's name
  int index = 0;            ///< index of the layer in that module: "<module>.weight_ih_l<index>"
  int64_t projection = 0;   ///< > 0: h is projected to this number of features (PyTorch's proj_size)
  /// A second input holds the tokens [n, steps] (integers); at kPadding, h and c are zero.
  bool padding = false;
  /// Processes the sequence from its end: PyTorch's second direction, "..._l<index>_reverse".
  bool reverse = false;
};

/// Input [n, steps, in], output [n, steps, hidden]: per step (i, f, g, o) = w_ih x + b_ih + w_hh h + b_hh, c' =
/// sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'). With a projection h' = w_hr (sigmoid(o) tanh(c')) and
/// the output is [n, steps, projection]. Backward covers the steps of this call; the incoming state is a constant
/// (truncated back-propagation through time). Under bf16 the cell c is float32.
///
/// Parameters weight_ih [4, hidden, in], weight_hh [4, hidden, hidden or projection], bias_ih and bias_hh [4, hidden],
/// and with a projection weight_hr [projection, hidden], initially uniform in ±1/sqrt(hidden). They are PyTorch's [4 *
/// hidden, ...] with the four gates as a separate dim, the same values in the same order in memory. States: h (shaped
/// as the output) and c [hidden]; a recomputing forward does not change them.
///
/// Sharded by hidden units: each worker computes all four gates of its units and gathers h over the tensor group before
/// every step; backward reduce-scatters h's gradient at the same point. The input is whole, its gradient a sum over
/// workers. With a projection each worker projects its own units; the sum over workers is h, which is whole on all of
/// them, as is the output. This takes an all-reduce of h per step, and one of its gradient.
///
/// With `padding` a reversed layer begins with the last word of a sentence, and the output after a sentence is zero, as
/// for PyTorch's packed sequences. Throws a user error if a reversed layer is stateful (a stream has no end to begin
/// from).
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
  /// Position in the sequence of the k-th computed step.
  int64_t position(int64_t k, int64_t steps) const { return options_.reverse ? steps - 1 - k : k; }
  /// Fills the saved tensors: output, h before each step, c before and after each step, activated gates, and with a
  /// projection the units' h.
  void run_steps(LayerCall& call) const;
  /// Gradients of the gates before their sigmoids and tanhs, [n, steps, 4, local units]; with a projection also of h
  /// [n, steps, projection].
  struct Gradients {
    at::Tensor gates, projected;
  };
  Gradients through_time(LayerCall& call, const at::Tensor& output_gradient) const;
  void add_parameter_gradients(LayerCall& call) const;
  /// Writes the layer step by step, for sequences with padding.
  void script_steps(ScriptWriter& writer) const;

  int64_t in_, hidden_;
  LstmOptions options_;
};

}  // namespace trireme
