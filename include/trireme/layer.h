// A layer: one operator of the model's graph with its parameters. Layers know nothing of devices, plans or programs;
// they compute on the shard that they are given and declare in which ways they may be split over the tensor axis.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/attributes.h"
#include "trireme/communicator.h"
#include "trireme/error.h"
#include "trireme/placement.h"

namespace trireme {

// What a layer says of its calls without running them (trireme/layer_facts.h), and what writes it down
// (model/export/writers.h).
struct CallShapes;
struct LayerExchanges;
struct LayerMemory;
struct OperatorWork;
enum class Pass;
class OnnxWriter;
class ScriptWriter;

/// How a parameter's first values are drawn. Keyed by the element's index in the full tensor: a shard fills only
/// itself.
struct Init {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double a = 0;  ///< constant: the value; uniform: low; normal: mean
  double b = 0;  ///< uniform: high; normal: standard deviation

  static Init constant(double value) { return {Kind::constant, value, 0}; }
  static Init uniform(double low, double high) { return {Kind::uniform, low, high}; }
  static Init normal(double mean, double deviation) { return {Kind::normal, mean, deviation}; }
};

/// A trainable tensor. Two layers that declare the same name share (tie) it; their shapes must agree.
struct ParameterSpec {
  std::string name;  ///< full name, torchvision's where the model is torchvision's: "layer1.0.conv1.weight"
  Shape shape;       ///< of the full tensor
  Init init;
  bool full_precision = false;  ///< kept in float32 under precision = "bf16" (norms)
  /// In files: PyTorch's for the same values in the same order ([4 * hidden, in] for [4, hidden, in]); empty: `shape`.
  Shape file_shape = {};
};

/// Persistent state without gradient (running statistics). Kept in float32 (float64 under precision = "fp64").
struct BufferSpec {
  std::string name;
  Shape shape;
  double initial = 0;
};

/// A tensor that a stateful layer carries from one step to the next for every row of the batch (an LSTM over a stream:
/// row r of the next batch goes on where row r of this one ended). Zero at first.
struct StateSpec {
  std::string name;
  Shape sample_shape;
};

/// One way to run a layer on a tensor axis of degree t. All placements are over the tensor axis; along the data axis
/// every activation is Shard(0) and every parameter Replicate.
///
/// The gradient of a value has the value's own placement, except that a Replicate value's gradient may be Partial (each
/// worker has a summand: it computed with a shard of the parameters) and a Partial value's gradient is Replicate.
struct ShardingOption {
  std::string name;                             ///< "replicate", "columns", "rows", "channels", ...
  std::vector<Placement> inputs = {};           ///< required of each input
  Placement output = {};                        ///< given
  std::vector<Placement> input_gradients = {};  ///< given: Shard as the input, else Replicate or Partial
  std::vector<Placement> parameters = {};       ///< of each parameter: Replicate or Shard
  std::vector<Placement> parameter_gradients =
      {};  ///< Shard as the parameter; of a Replicate parameter: Replicate = every worker computes
           ///< the full gradient, Partial = each a summand
  std::vector<Placement> buffers = {};         ///< of each buffer: Replicate or Shard
  std::vector<Placement> states = {};          ///< of each state, with the batch as dim 0: Replicate or Shard
  bool divides_work = false;                   ///< each worker does 1/t of the multiplications
  bool communicates_over_tensor_axis = false;  ///< forward and backward call the tensor group themselves
};

/// Over what batch norm takes its statistics. local: the data shard of a micro-batch; global: the whole micro-batch;
/// deferred: as local, but the running statistics take in a whole mini-batch at once (Kim et al., "torchgpipe", 2020).
enum class BatchNormScope { local, global, deferred };

/// In which numbers a layer's output is: those that layers compute in, the wider ones of weights and losses, its first
/// input's, or bytes.
enum class OutputType { compute, master, as_input, byte };

/// What the runtime hands to one call of one layer on one worker. Lives for the forward call and, with its saved
/// tensors, until the backward call of the same micro-batch has returned. Used by one thread.
class LayerCall {
 public:
  virtual ~LayerCall() = default;

  // -- what is being computed
  bool training = true;
  uint64_t seed = 0;
  int64_t step = 0;
  int64_t batch_samples = 0;        ///< samples of the whole global batch of this step: the loss divisor
  int64_t first_sample = 0;         ///< index within the global batch of the local batch's first sample
  int64_t micro_batch_samples = 0;  ///< samples of this micro-batch over all data shards
  int micro_batch = 0;              ///< forwards of one step come in this order, 0 first
  int micro_batches = 1;
  bool recomputing = false;       ///< a second forward of the same samples: must leave buffers as they are
  bool defer_parameters = false;  ///< backward leaves the parameters' gradients to backward_parameters
  const ShardingOption* option = nullptr;
  Box output_box;        ///< region of the global output (of this micro-batch) that this worker computes
  int tensor_index = 0;  ///< position on the tensor axis
  int tensor_degree = 1;
  BatchNormScope batch_norm = BatchNormScope::local;

  // -- parameters: local shards, in the compute dtype (float32 for full_precision ones)
  virtual const at::Tensor& parameter(int index) = 0;
  virtual at::Tensor& buffer(int index) = 0;
  /// False for frozen parameters and where another worker of the tensor axis counts this gradient.
  virtual bool wants_gradient(int index) = 0;
  /// Adds to the local shard's gradient. Taken over at once; the tensor may be reused.
  virtual void add_gradient(int index, const at::Tensor& gradient) = 0;
  /// For kernels that can write in place: the flat buffer's view, and whether it already holds a contribution to add
  /// to.
  struct GradientTarget {
    at::Tensor tensor;
    bool accumulate = false;
  };
  virtual GradientTarget gradient_target(int index) = 0;
  /// False where nobody needs the gradient of that input (data, integer targets).
  virtual bool wants_input_gradient(int index) = 0;

  // -- state carried over steps: this worker's rows, as the option places them
  virtual const at::Tensor& state(int index) = 0;                 ///< as the step before left it
  virtual void set_state(int index, const at::Tensor& next) = 0;  ///< for the next step; taken over, not copied

  /// Undefined at first; what a layer leaves here it finds again in its next call on this worker, of whatever
  /// micro-batch or step. For sums within a step (deferred batch norm): not part of the model, never saved or compared.
  /// Calls of a runtime that offers no such place throw.
  virtual at::Tensor& scratch() {
    fail_run({"layer call", "no scratch tensor", "this runtime keeps none between calls",
              "choose another batch norm scope"});
  }

  // -- saved for backward
  std::vector<at::Tensor> saved;

  // -- communication over the axes of this layer's mesh; groups of one are no-ops
  virtual Communicator& data_group() = 0;
  virtual Communicator& tensor_group() = 0;

  /// Adds `value` (a sum over the local samples) to a named metric of the step or evaluation: "correct". The runtime
  /// adds over data shards and micro-batches, counting one worker of the tensor axis.
  virtual void report(std::string_view metric, double value) = 0;
};

/// Immutable and stateless: any number of threads may run one layer at once, each with its own LayerCall.
/// All shapes without the batch dim are "sample shapes"; tensors have the batch as dim 0.
class Layer {
 public:
  explicit Layer(std::string name) : name_(std::move(name)) {}
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  /// For messages, and to tell equal layers from others. Nothing may depend on which kind it is: what is true of a
  /// layer it states itself.
  virtual std::string_view kind() const = 0;
  /// With kind() and parameters() all that makes it compute what it computes. Losses need not tell.
  virtual Attributes attributes() const { return {}; }

  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<BufferSpec> buffers() const { return {}; }
  virtual std::vector<StateSpec> states() const { return {}; }

  /// Sample shape of the output. Errors: user error naming the layer when the inputs do not fit.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;

  /// All ways to run on a tensor axis of `degree` (>= 1); the first is always "replicate". Options that do not divide
  /// evenly are left out. Degree 1 has only "replicate".
  virtual std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const = 0;

  /// Whether forward and backward call the data group themselves under this scope (global batch norm).
  virtual bool communicates_over_data_axis(BatchNormScope) const { return false; }

  /// False where the output is made of positions or counts: no gradient goes through it, and none is sent to this
  /// layer.
  virtual bool passes_gradients() const { return true; }

  /// Where input `index` holds integers (tokens, labels, positions): below how many they are, 0 where the layer does
  /// not mind. Nothing where it holds numbers.
  virtual std::optional<int64_t> integers_below(std::span<const Shape>, size_t) const { return std::nullopt; }
  virtual OutputType output_type() const { return OutputType::compute; }

  /// Whether it reads those rows of its first parameter only that its integers name: only they have gradients.
  virtual bool reads_rows() const { return false; }

  /// Whether it sums up its neighbourhood (a pooling) and so ends a block where models are lists of layers without
  /// blocks.
  virtual bool ends_block() const { return false; }

  // -- facts of calls, for predictions
  /// Multiply-adds of one sample's forward, counted as 2 FLOP each.
  virtual double forward_flops(std::span<const Shape> inputs) const = 0;
  /// Bytes of one call in training. Default: inputs and output are kept.
  virtual LayerMemory memory(const CallShapes& call) const;
  /// The operators of a pass, in order; `flops`: of this call's forward. Default: one that touches everything once.
  virtual std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const;
  /// What the call exchanges with other workers itself; asked only of calls that do. Errors (internal): the default.
  virtual LayerExchanges exchanges(const CallShapes& call) const;

  // -- export (model/export/); the defaults are user errors: no counterpart
  /// Adds the layer's nodes and gives the name of their output.
  virtual std::string to_onnx(OnnxWriter& writer) const;
  virtual void to_script(ScriptWriter& writer) const;

  virtual at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const = 0;

  /// Gradients of the inputs, undefined where not wanted; adds parameter gradients through the call. The results may
  /// share memory with each other and with `output_gradient` (a sum's inputs): whoever accumulates them must not do so
  /// in place.
  virtual std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const = 0;

  /// Whether backward can be split in two (zero-bubble schedules): with call.defer_parameters, backward computes the
  /// inputs' gradients only and saves in `call` what backward_parameters, called once after it, needs for the
  /// parameters'.
  virtual bool splits_backward() const { return false; }
  virtual void backward_parameters(LayerCall&) const {}

 private:
  std::string name_;
};

}  // namespace trireme
