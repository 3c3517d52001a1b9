// A layer: one operator of the model's graph with its parameters. Layers know nothing of devices, plans or programs.
// They compute on the shard that they are given and declare in which ways they can be split over the tensor axis.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "trireme/communicator.h"
#include "trireme/error.h"
#include "trireme/placement.h"

namespace trireme {

class Layer;
// Writers of Trireme's own export formats. They are not public: a layer of your own keeps the defaults of to_onnx and
// to_script.
class OnnxWriter;
class ScriptWriter;

constexpr int kPadding = 0;  ///< token id, and target, of positions after the end of a sample

using AttributeValue = std::variant<bool, int64_t, double, std::vector<int64_t>>;

/// Attributes by name: everything besides kind, parameters and input shapes that determines what a layer computes
/// (strides, heads, switches). Layers that agree in all of these have the same cost, so profiles and planners treat
/// equal layers once. Image sizes are lists [height, width].
using Attributes = std::map<std::string, AttributeValue>;

/// How the initial values of a parameter are drawn. Draws are keyed by the element's index in the full tensor, so a
/// shard fills only its own elements.
struct Init {
  enum class Kind { constant, uniform, normal };
  Kind kind = Kind::constant;
  double a = 0;  ///< constant: the value; uniform: low; normal: mean
  double b = 0;  ///< uniform: high; normal: standard deviation

  static Init constant(double value) { return {Kind::constant, value, 0}; }
  static Init uniform(double low, double high) { return {Kind::uniform, low, high}; }
  static Init normal(double mean, double deviation) { return {Kind::normal, mean, deviation}; }
};

/// A trainable tensor. Two layers that declare the same name share (tie) it; their shapes must be equal.
struct ParameterSpec {
  std::string name;  ///< full name, torchvision's where the model is torchvision's: "layer1.0.conv1.weight"
  Shape shape;       ///< of the full tensor
  Init init;
  bool full_precision = false;  ///< stays in float32 under precision = "bf16" (norms)
  /// Shape in weight files: PyTorch's shape for the same values in the same order ([4 * hidden, in] for [4, hidden,
  /// in]). Empty: `shape`.
  Shape file_shape = {};
};

/// Persistent state without a gradient (running statistics). Stored in float32 (float64 under precision = "fp64").
struct BufferSpec {
  std::string name;
  Shape shape;
  double initial = 0;
};

/// A tensor that a stateful layer carries from one step to the next for every row of the batch. Example: an LSTM over a
/// stream, where row r of the next batch continues row r of this one. Initially zero.
struct StateSpec {
  std::string name;
  Shape sample_shape;
};

/// One way to run a layer on a tensor axis of degree t. All placements refer to the tensor axis. Along the data axis
/// every activation is Shard(0) and every parameter is Replicate.
///
/// The gradient of a value has the same placement as the value, with two exceptions. The gradient of a Replicate value
/// may be Partial (each worker computed with a shard of the parameters and holds a summand). The gradient of a Partial
/// value is Replicate.
struct ShardingOption {
  std::string name;                    ///< "replicate", "columns", "rows", "channels", ...
  std::vector<Placement> inputs = {};  ///< required placement of each input
  Placement output = {};               ///< placement of the output
  /// of each input's gradient: Shard like the input; else Replicate or Partial
  std::vector<Placement> input_gradients = {};
  std::vector<Placement> parameters = {};  ///< of each parameter: Replicate or Shard
  /// Of each parameter's gradient. Shard like the parameter. For a Replicate parameter: Replicate if every worker
  /// computes the full gradient, Partial if each worker computes a summand.
  std::vector<Placement> parameter_gradients = {};
  std::vector<Placement> buffers = {};         ///< of each buffer: Replicate or Shard
  std::vector<Placement> states = {};          ///< of each state, with the batch as dim 0: Replicate or Shard
  bool divides_work = false;                   ///< each worker does 1/t of the multiplications
  bool communicates_over_tensor_axis = false;  ///< forward and backward call the tensor group
};

/// The samples over which batch norm computes its statistics. local: the data shard of a micro-batch. global: the whole
/// micro-batch. deferred: like local, but the running statistics are updated once per mini-batch (Kim et al.,
/// "torchgpipe", 2020).
enum class BatchNormScope { local, global, deferred };

/// Dtype of a layer's output. compute: the dtype that layers compute in. master: the wider dtype of weights and losses.
/// as_input: the dtype of the first input. byte: bytes.
enum class OutputType { compute, master, as_input, byte };

/// The number of a step. It converts to an integer and remembers whether a layer has read it. A layer that reads it
/// computes something else in each step, so the runtime cannot record one step on a GPU and replay it.
class StepNumber {
 public:
  StepNumber(int64_t number = 0) : number_(number) {}  // NOLINT(google-explicit-constructor): it stands for a number
  operator int64_t() const {                           // NOLINT(google-explicit-constructor)
    was_read_ = true;
    return number_;
  }
  bool was_read() const { return was_read_; }

 private:
  int64_t number_;
  mutable bool was_read_ = false;
};

/// The arguments and services that the runtime passes to one call of one layer on one worker. Lives for the forward
/// call and, with its saved tensors, until the backward call of the same micro-batch has returned. Used by one thread.
class LayerCall {
 public:
  virtual ~LayerCall() = default;

  // -- what is being computed
  bool training = true;
  uint64_t seed = 0;
  StepNumber step;
  int64_t batch_samples = 0;        ///< samples of the global batch of this step: the divisor of the loss
  int64_t first_sample = 0;         ///< index of the local batch's first sample within the global batch
  int64_t micro_batch_samples = 0;  ///< samples of this micro-batch over all data shards
  /// Index among the micro-batches of the step in which this worker runs the layer, from 0. (A worker does not run the
  /// layer in a micro-batch in which it has no samples.) Forward calls of one step come in this order.
  int micro_batch = 0;
  int micro_batches = 1;          ///< their number
  bool recomputing = false;       ///< a second forward of the same samples: must not change buffers
  bool defer_parameters = false;  ///< backward leaves the parameters' gradients to backward_parameters
  const ShardingOption* option = nullptr;
  Box output_box;        ///< region of the global output (of this micro-batch) that this worker computes
  int tensor_index = 0;  ///< position on the tensor axis
  int tensor_degree = 1;
  BatchNormScope batch_norm = BatchNormScope::local;

  // -- parameters: local shards, in the compute dtype (float32 for those with full_precision)
  virtual const at::Tensor& parameter(int index) = 0;
  virtual at::Tensor& buffer(int index) = 0;
  /// False for frozen parameters, and if another worker of the tensor axis contributes this gradient.
  virtual bool wants_gradient(int index) = 0;
  /// Adds `gradient` to the gradient of the local shard. The caller may reuse the tensor afterwards.
  virtual void add_gradient(int index, const at::Tensor& gradient) = 0;
  /// For kernels that can write in place. `tensor`: a view into the flat gradient buffer. `accumulate`: true if the
  /// view already holds a contribution, to which the kernel must add.
  struct GradientTarget {
    at::Tensor tensor;
    bool accumulate = false;
  };
  virtual GradientTarget gradient_target(int index) = 0;
  /// False if the gradient of that input is not needed (data, integer targets).
  virtual bool wants_input_gradient(int index) = 0;

  // -- state carried from step to step: this worker's rows, placed as the option states
  virtual const at::Tensor& state(int index) = 0;                 ///< as the previous step left it
  virtual void set_state(int index, const at::Tensor& next) = 0;  ///< for the next step; retains the tensor, no copy

  /// A scratch tensor of this layer on this worker, undefined at first. A value that one call stores here is seen by
  /// the layer's next call on this worker, in any micro-batch or step. Use it for sums within a step (deferred batch
  /// norm). It is not part of the model and is never saved or compared. Throws if the runtime offers no scratch tensor.
  virtual at::Tensor& scratch() {
    fail_run({"layer call", "no scratch tensor", "this runtime keeps none between calls",
              "choose another batch norm scope"});
  }

  // -- tensors saved for backward
  std::vector<at::Tensor> saved;

  // -- communication over the axes of this layer's mesh; operations of a group of one are no-ops
  virtual Communicator& data_group() = 0;
  virtual Communicator& tensor_group() = 0;

  /// Adds `value` (a sum over the local samples) to a named metric of the step or evaluation, for example "correct".
  /// The runtime sums over data shards and micro-batches and counts only one worker of the tensor axis.
  virtual void report(std::string_view metric, double value) = 0;
  /// Likewise for a tensor of one number, on any device. The default reads it at once; a runtime may read it later,
  /// when the device has computed it.
  virtual void report(std::string_view metric, const at::Tensor& value) { report(metric, value.item<double>()); }
};

// -- facts about one call of a layer, derived from shapes alone: what it holds in memory, computes and communicates

struct CallTensor {
  Shape shape;          ///< local shape; dim 0 is the batch, if there is one
  int64_t element = 4;  ///< bytes of one element

  int64_t count() const { return element_count(shape); }
  int64_t bytes() const { return count() * element; }
};

/// The tensors of one call of a layer on one worker. The layer and the option must outlive this object.
struct CallShapes {
  const Layer* layer = nullptr;
  const ShardingOption* option = nullptr;
  int tensor = 1;
  /// Size of the data group that the call communicates with (global batch norm); 1: no communication over the data
  /// axis.
  int data = 1;
  int64_t samples = 0;
  bool fused_attention = false;  ///< the device computes attention without storing the scores (FlashAttention)
  int64_t compute = 4;           ///< bytes of an element of the compute dtype
  int64_t master = 4;            ///< bytes of an element of weights and losses
  std::vector<CallTensor> inputs;
  std::vector<bool> wanted;  ///< per input: true if its gradient is computed
  CallTensor output;
  std::vector<CallTensor> parameters;
};

/// Memory of one call, in bytes. A tensor that is retained for two reasons is counted once, by storage. A workspace is
/// the peak memory of a call without its output and its saved tensors (backward: without the input gradients). Memory
/// that libraries allocate inside their kernels (oneDNN for convolutions and for bfloat16 products) is not included.
struct LayerMemory {
  int64_t output = 0;             ///< size of the output's own storage; 0 if the output shares an input's storage
  int output_shares_input = -1;   ///< index of that input; -1: none
  int64_t saved = 0;              ///< retained from forward to backward, besides inputs and output
  std::vector<bool> keeps_input;  ///< per input: true if its storage is retained from forward to backward
  bool keeps_output = false;
  int64_t forward_workspace = 0;   ///< peak of the tensors that live only within forward
  int64_t backward_workspace = 0;  ///< likewise for backward, without the input gradients
  /// The part of backward_workspace that is live when a parameter gradient is first accumulated, or later. nullopt: all
  /// of it.
  std::optional<int64_t> parameter_workspace = {};
  /// Workspaces of the two parts of a split backward; the first without the input gradients. nullopt: that of the whole
  /// backward.
  std::optional<int64_t> input_workspace = {}, weight_workspace = {};
  /// Bytes retained in place of `saved` from the first part to the second, besides the output gradient. nullopt: as
  /// `saved`.
  std::optional<int64_t> deferred = {};
  bool defers_gradient = true;  ///< the output gradient's storage is retained until the second part
  /// Bytes per input; 0 if no gradient is computed, or if it shares the output gradient's storage.
  std::vector<int64_t> input_gradients;
};

/// One communication among the workers of a group, or several equal ones, one after the other.
struct Exchange {
  RedistributionKind kind = RedistributionKind::none;
  /// Of the whole tensor: before a reduce_scatter, after an all_gather or all_reduce. all_to_all: what one worker
  /// holds. send_receive: bytes over the boundary between two neighbours, both directions together.
  double bytes = 0;
  double times = 1;
  bool over_data = false;  ///< true: over the data group; false: over the tensor group
};

/// Communication of a call, in order. A split backward communicates in its first part.
struct LayerExchanges {
  std::vector<Exchange> forward, backward;
};

/// Equal operators that run one after the other.
struct OperatorWork {
  double operators = 1;     ///< number of kernels of equal work, launched one after the other; 0: no work
  double flops = 0;         ///< FLOPs of all of them
  double bytes = 0;         ///< bytes read and written by all of them
  bool multiplies = false;  ///< true: matrix products, whose efficiency depends on their size; false: bound by memory
  bool fused_attention = false;  ///< a kernel of CallShapes::fused_attention, with an efficiency of its own
};

/// One pass through a layer.
enum class Pass { forward, input_gradients, weight_gradients };

// -- the layer

/// Immutable and stateless. Thread-safe: any number of threads may run one layer at once, each with its own LayerCall.
/// "Sample shapes" are shapes without the batch dim; tensors have the batch as dim 0.
class Layer {
 public:
  explicit Layer(std::string name) : name_(std::move(name)) {}
  virtual ~Layer() = default;

  const std::string& name() const { return name_; }
  /// Name of the layer's kind, for messages and to recognise equal layers. No code may depend on which kind a layer is:
  /// a layer states every fact about itself.
  virtual std::string_view kind() const = 0;
  /// kind(), parameters() and these attributes together determine what the layer computes. Losses need not state
  /// attributes.
  virtual Attributes attributes() const { return {}; }

  virtual std::vector<ParameterSpec> parameters() const { return {}; }
  virtual std::vector<BufferSpec> buffers() const { return {}; }
  virtual std::vector<StateSpec> states() const { return {}; }

  /// Sample shape of the output. Throws a user error that names the layer if the inputs do not fit.
  virtual Shape output_shape(std::span<const Shape> inputs) const = 0;

  /// All ways to run on a tensor axis of `degree` (>= 1). The first is always "replicate". Options that do not divide
  /// evenly are left out. Degree 1 has only "replicate".
  virtual std::vector<ShardingOption> sharding_options(std::span<const Shape> inputs, int degree) const = 0;

  /// True if forward and backward call the data group under this scope (global batch norm).
  virtual bool communicates_over_data_axis(BatchNormScope) const { return false; }

  /// False if the output holds positions or counts: no gradient passes through the layer, and no output gradient is
  /// sent to it.
  virtual bool passes_gradients() const { return true; }

  /// For an input `index` that holds integers (tokens, labels, positions): the exclusive upper bound of their values,
  /// or 0 if the layer sets no bound. nullopt if the input holds real numbers.
  virtual std::optional<int64_t> integers_below(std::span<const Shape>, size_t) const { return std::nullopt; }
  virtual OutputType output_type() const { return OutputType::compute; }

  /// True if the layer reads only those rows of its first parameter that its integer input names. Only these rows have
  /// gradients.
  virtual bool reads_rows() const { return false; }

  /// True if the layer aggregates over a neighbourhood (a pooling). Such a layer ends a block in models that are lists
  /// of layers without blocks.
  virtual bool ends_block() const { return false; }

  /// True if the call keeps much memory for few FLOPs, so that selective recompute (Korthikanti et al., 2022) runs it
  /// again: attention, which keeps its scores.
  virtual bool is_cheap_to_recompute() const { return false; }

  // -- facts about calls, for predictions
  /// FLOPs of one sample's forward. A multiply-add counts as 2 FLOPs.
  virtual double forward_flops(std::span<const Shape> inputs) const = 0;
  /// Memory of one call in training, in bytes. Default: inputs and output are retained for backward.
  virtual LayerMemory memory(const CallShapes& call) const;
  /// The operators of a pass, in order. `flops`: FLOPs of this call's forward. Default: one operator that reads and
  /// writes everything once.
  virtual std::vector<OperatorWork> work(const CallShapes& call, double flops, Pass pass) const;
  /// The communication that the call itself performs. Requested only for layers that communicate within their calls.
  /// Default: throws an internal error.
  virtual LayerExchanges exchanges(const CallShapes& call) const;

  // -- export. Errors (user) of the defaults: the layer has no counterpart in that format.
  /// Adds the layer's nodes. Returns the name of their output.
  virtual std::string to_onnx(OnnxWriter& writer) const;
  virtual void to_script(ScriptWriter& writer) const;

  /// Returns the output of this worker's shard, placed as `call.option` states; dim 0 is the batch. Must not write to
  /// `inputs`. Puts into `call.saved` what backward needs. Thread-safe.
  virtual at::Tensor forward(LayerCall& call, std::span<const at::Tensor> inputs) const = 0;

  /// True if restore() can put into `call.saved` what forward puts there without computing the output. A recomputed run
  /// calls it instead of forward where nothing in the run reads the output.
  virtual bool restores() const { return false; }
  virtual void restore(LayerCall& call, std::span<const at::Tensor> inputs) const;

  /// Returns the gradients of the inputs, undefined where not wanted; adds parameter gradients through the call. The
  /// results may share memory with each other and with `output_gradient` (the inputs of a sum), so the caller must not
  /// accumulate into them in place.
  virtual std::vector<at::Tensor> backward(LayerCall& call, const at::Tensor& output_gradient) const = 0;

  /// True if backward can be split in two (zero-bubble schedules). With call.defer_parameters, backward computes only
  /// the gradients of the inputs and saves in `call` what backward_parameters needs. backward_parameters is called
  /// once, after it.
  virtual bool splits_backward() const { return false; }
  virtual void backward_parameters(LayerCall&) const {}

 private:
  std::string name_;
};

}  // namespace trireme
