#include "trireme/layers/batch_norm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/kernels/norm.h"
#include "model/layers/batch_norm_device.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using kernels::BFloat16Bits;
using kernels::Mask;

/// Tensors that forward saves: input, per-channel state, and the output if the ReLU's mask cannot be computed from the
/// input.
enum BatchNormSaved { kBatchNormInput, kBatchNormState, kBatchNormOutput };
/// Rows of the state, a double tensor [4, c].
enum BatchNormState { kBatchNormMean, kBatchNormInverseDeviation, kBatchNormScale, kBatchNormShift };

/// Statistics of a batch per channel, over `count` values each.
struct Moments {
  at::Tensor mean, m2;  ///< double [c]
  double count = 0;
};

template <class Body>
void for_element_type(const Layer& layer, const at::Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return body(float{});
    case at::kDouble: return body(double{});
    case at::kBFloat16: return body(BFloat16Bits{});
    default:
      fail_shape(layer, fmt::format("input of type {}", c10::toString(tensor.scalar_type())),
                 "it computes in float, double or bfloat16", "choose another precision");
  }
}

template <class Element>
const Element* data(const at::Tensor& tensor) {
  return static_cast<const Element*>(tensor.data_ptr());
}
template <class Element>
Element* mutable_data(const at::Tensor& tensor) {
  return static_cast<Element*>(tensor.data_ptr());
}

/// Converts double values to the type that the kernel computes in.
template <class Element>
at::Tensor as_arithmetic(const at::Tensor& values) {
  return values.to(std::is_same_v<Element, double> ? at::kDouble : at::kFloat);
}

template <class Element>
kernels::NormCoefficients<Element> coefficients_of(const at::Tensor& state) {
  using A = kernels::Arithmetic<Element>;
  const A* rows = data<A>(state);
  int64_t channels = state.size(1);
  return {rows + kBatchNormMean * channels, rows + kBatchNormScale * channels, rows + kBatchNormShift * channels};
}

/// Converts to the kernels' layout: [n, c, l] becomes an image of width 1, with contiguous channels.
at::Tensor in_kernel_layout(const at::Tensor& tensor) {
  return in_layout(tensor.dim() == 3 ? tensor.unsqueeze(3) : tensor);
}

/// The inverse, for a tensor of `dims` dims.
at::Tensor in_layers_layout(const at::Tensor& tensor, int64_t dims) {
  return dims == 3 && tensor.defined() ? in_layout(tensor.squeeze(3)) : tensor;
}

int64_t rows_of(const at::Tensor& input) { return input.size(1) == 0 ? 0 : input.numel() / input.size(1); }

at::TensorOptions doubles() { return at::TensorOptions().dtype(at::kDouble); }

Moments local_moments(const Layer& layer, const at::Tensor& input) {
  int64_t channels = input.size(1);
  Moments m{at::zeros({channels}, doubles()), at::zeros({channels}, doubles()), double(rows_of(input))};
  for_element_type(layer, input, [&]<class Element>(Element) {
    kernels::norm_kernels<Element>().moments(data<Element>(input), rows_of(input), channels, m.mean.data_ptr<double>(),
                                             m.m2.data_ptr<double>());
  });
  return m;
}

/// Packs mean, M2 and count into one double tensor [2 c + 1], for communication.
at::Tensor pack(const Moments& m) { return at::cat({m.mean, m.m2, at::full({1}, m.count, doubles())}); }

/// Merges packed moments into `total` (update of Chan, Golub and LeVeque).
void merge(Moments& total, const at::Tensor& packed) {
  const int64_t channels = total.mean.numel();
  double *mean = total.mean.data_ptr<double>(), *m2 = total.m2.data_ptr<double>();
  const double* p = packed.data_ptr<double>();
  const double count = p[2 * channels];
  if (count == 0) return;
  const double share = count / (total.count + count), weight = total.count * share;
  for (int64_t c = 0; c < channels; ++c) {
    const double delta = p[c] - mean[c];
    mean[c] += delta * share;
    m2[c] += p[channels + c] + delta * delta * weight;
  }
  total.count += count;
}

/// Merges the moments of all ranks in rank order, so all ranks compute the same bits.
Moments merge_over(Communicator& group, const Moments& mine) {
  const at::Tensor message = pack(mine);
  std::vector<at::Tensor> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(at::empty_like(message));
  group.all_gather(message, all);
  Moments total{at::zeros_like(mine.mean), at::zeros_like(mine.m2), 0};
  for (const at::Tensor& part : all) merge(total, part);
  return total;
}

/// Returns the moments with which the running statistics are updated after this micro-batch: its own; under the
/// deferred scope nothing before the step's last micro-batch, and then those of all micro-batches.
Moments to_commit(LayerCall& call, const Moments& m) {
  if (call.batch_norm != BatchNormScope::deferred || call.micro_batches <= 1) return m;
  at::Tensor& kept = call.scratch();
  Moments total{m.mean.clone(), m.m2.clone(), m.count};
  if (call.micro_batch > 0) {
    check_internal(kept.defined(), "the micro-batches of a step come to batch norm in order");
    total = {at::zeros_like(m.mean), at::zeros_like(m.m2), 0};
    merge(total, kept);
    merge(total, pack(m));
  }
  const bool last = call.micro_batch + 1 == call.micro_batches;
  kept = last ? at::Tensor() : pack(total);
  return last ? total : Moments{m.mean, m.m2, 0};
}

void update_running(LayerCall& call, const Moments& m, double momentum) {
  if (m.count == 0) return;
  at::Tensor &mean = call.buffer(0), &variance = call.buffer(1);
  mean.mul_(1 - momentum).add_(m.mean.to(mean.scalar_type()), momentum);
  variance.mul_(1 - momentum).add_((m.m2 / std::max(m.count - 1, 1.0)).to(variance.scalar_type()), momentum);
}

/// [4, c]: mean, 1 / deviation, scale, shift.
at::Tensor state_from(const at::Tensor& mean, const at::Tensor& variance, double epsilon, LayerCall& call) {
  at::Tensor inverse = (variance + epsilon).rsqrt();
  at::Tensor scale = inverse * call.parameter(0).to(at::kDouble), shift = call.parameter(1).to(at::kDouble);
  return at::stack({mean, inverse, scale, shift});
}

}  // namespace

bool has_global_statistics(LayerCall& call) {
  return call.batch_norm == BatchNormScope::global && call.data_group().size() > 1;
}

void add_over_statistics(LayerCall& call, at::Tensor& sums) {
  if (is_split_by_height(call)) call.tensor_group().all_reduce(sums);
  if (has_global_statistics(call)) call.data_group().all_reduce(sums);
}

double values_per_channel(LayerCall& call, const at::Tensor& input) {
  double values = double(has_global_statistics(call) ? call.micro_batch_samples : input.size(0));
  for (int64_t dim = 2; dim < input.dim(); ++dim) values *= double(input.size(dim));
  return values * (is_split_by_height(call) ? call.tensor_degree : 1);
}

BatchNorm::BatchNorm(std::string name, int64_t channels, BatchNormOptions options)
    : Layer(std::move(name)), channels_(channels), options_(options) {}

std::vector<ParameterSpec> BatchNorm::parameters() const {
  return {{name() + ".weight", {channels_}, Init::constant(1), /*full_precision=*/true},
          {name() + ".bias", {channels_}, Init::constant(0), /*full_precision=*/true}};
}

std::vector<BufferSpec> BatchNorm::buffers() const {
  return {{name() + ".running_mean", {channels_}, 0}, {name() + ".running_var", {channels_}, 1}};
}

Attributes BatchNorm::attributes() const {
  return {{"relu", options_.relu},
          {"residual", options_.residual},
          {"momentum", options_.momentum},
          {"epsilon", options_.epsilon}};
}

Shape BatchNorm::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, options_.residual ? 2 : 1);
  const Shape& in = inputs[0];
  if (in.empty() || in.size() > 3 || in[0] != channels_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("it must be [{0}], [{0}, length] or [{0}, height, width]", channels_),
               "change the layer's channels");
  if (options_.residual && inputs[1] != in)
    fail_shape(*this, fmt::format("residual sample shape {}", to_string(inputs[1])),
               fmt::format("it must equal the input's, {}", to_string(in)), "project the residual to that shape first");
  return in;
}

std::vector<ShardingOption> BatchNorm::sharding_options(std::span<const Shape> inputs, int degree) const {
  int count = options_.residual ? 2 : 1;
  std::vector<ShardingOption> options{replicate_option(count, 2, 2)};
  if (degree == 1) return options;
  if (channels_ % degree == 0) {
    ShardingOption channels = elementwise_options(count, inputs[0], degree, 1).at(1);
    channels.name = "channels";
    channels.parameters = channels.parameter_gradients = channels.buffers = {Placement::shard(0), Placement::shard(0)};
    options.push_back(std::move(channels));
  }
  if (inputs[0].size() > 1 && inputs[0][1] % degree == 0) {
    options.push_back(height_option(count, Placement::shard(2), 2, 2, /*communicates=*/true));
    if (inputs[0].size() == 2) options.back().name = "sequence";
  }
  return options;
}

double BatchNorm::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // one multiply-add for the statistics, one to normalise
}

at::Tensor BatchNorm::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  if (!on_host(inputs[0])) return batch_norm_on_device(call, options_, inputs);
  at::Tensor input = in_kernel_layout(inputs[0]);
  at::Tensor residual = options_.residual ? in_kernel_layout(inputs[1]) : at::Tensor();
  at::Tensor output = empty_in_layout(input.sizes(), input.options());
  at::Tensor state;
  if (call.training) {
    Moments m = local_moments(*this, input);
    if (is_split_by_height(call)) m = merge_over(call.tensor_group(), m);
    if (has_global_statistics(call)) m = merge_over(call.data_group(), m);
    if (!call.recomputing) update_running(call, to_commit(call, m), options_.momentum);
    state = state_from(m.mean, m.m2 / std::max(m.count, 1.0), options_.epsilon, call);
    call.saved = {input, state};
    if (options_.relu && options_.residual) call.saved.push_back(output);
  } else {
    state = state_from(call.buffer(0).to(at::kDouble), call.buffer(1).to(at::kDouble), options_.epsilon, call);
  }
  for_element_type(*this, input, [&]<class Element>(Element) {
    at::Tensor arithmetic = as_arithmetic<Element>(state);
    kernels::norm_kernels<Element>().normalize({.rows = rows_of(input),
                                                .channels = input.size(1),
                                                .coefficients = coefficients_of<Element>(arithmetic),
                                                .input = data<Element>(input),
                                                .residual = residual.defined() ? data<Element>(residual) : nullptr,
                                                .output = mutable_data<Element>(output),
                                                .relu = options_.relu});
  });
  return in_layers_layout(output, inputs[0].dim());
}

std::vector<at::Tensor> BatchNorm::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  check_internal(call.saved.size() >= 2, "batch norm's backward follows a forward in training mode");
  if (!on_host(call.saved[kBatchNormInput])) return batch_norm_backward_on_device(call, options_, output_gradient);
  const at::Tensor &input = call.saved[kBatchNormInput], &state = call.saved[kBatchNormState];
  at::Tensor gradient = in_kernel_layout(output_gradient.to(input.scalar_type()));
  int64_t channels = input.size(1), rows = rows_of(input);
  bool want_input = call.wants_input_gradient(0);
  bool want_residual = options_.residual && call.wants_input_gradient(1);
  at::Tensor input_gradient, residual_gradient;
  for_element_type(*this, input, [&]<class Element>(Element) {
    at::Tensor arithmetic = as_arithmetic<Element>(state);
    kernels::NormBackwardArguments<Element> a{.rows = rows,
                                              .channels = channels,
                                              .coefficients = coefficients_of<Element>(arithmetic),
                                              .input = data<Element>(input),
                                              .output_gradient = data<Element>(gradient)};
    if (options_.relu) a.mask = options_.residual ? Mask::from_output : Mask::from_input;
    if (a.mask == Mask::from_output) a.output = data<Element>(call.saved[kBatchNormOutput]);
    if (want_residual && options_.relu) {
      residual_gradient = empty_in_layout(input.sizes(), input.options());
      a.residual_gradient = mutable_data<Element>(residual_gradient);
    } else if (want_residual) {
      residual_gradient = gradient;
    }

    // row 0: sum of g; row 1: sum of g * (x - mean)
    at::Tensor sums = at::zeros({2, channels}, doubles());
    kernels::norm_kernels<Element>().backward_sums(a, sums.data_ptr<double>(), sums.data_ptr<double>() + channels);
    if (call.wants_gradient(0))
      call.add_gradient(0, (sums[1] * state[kBatchNormInverseDeviation]).to(call.parameter(0).scalar_type()));
    if (call.wants_gradient(1)) call.add_gradient(1, sums[0].to(call.parameter(1).scalar_type()));

    add_over_statistics(call, sums);
    if (!want_input) return;
    const double count = values_per_channel(call, input);
    sums.div_(std::max(count, 1.0));
    at::Tensor mean_gradient = as_arithmetic<Element>(sums[0]).contiguous();
    at::Tensor slope = as_arithmetic<Element>(sums[1] * state[kBatchNormInverseDeviation].square());
    using A = kernels::Arithmetic<Element>;
    a.mean_gradient = data<A>(mean_gradient);
    a.slope = data<A>(slope);
    input_gradient = empty_in_layout(input.sizes(), input.options());
    a.input_gradient = mutable_data<Element>(input_gradient);
    if (a.residual_gradient) {  // the first pass stored g there, so the mask need not be read again
      a.output_gradient = a.residual_gradient;
      a.mask = Mask::none;
    }
    kernels::norm_kernels<Element>().input_gradient(a);
  });
  input_gradient = in_layers_layout(input_gradient, output_gradient.dim());
  if (!options_.residual) return {input_gradient};
  return {input_gradient, in_layers_layout(residual_gradient, output_gradient.dim())};
}

/// For [n, channels, length] the kernels read and write copies with contiguous channels.
LayerMemory BatchNorm::memory(const CallShapes& call) const {
  constexpr int64_t kStateRows = kBatchNormShift + 1;
  LayerMemory memory = plain_memory(call);
  const bool relu = options_.relu, residual = options_.residual;
  const Shape& in = call.inputs[0].shape;
  const int64_t row = in[1] * 8;
  memory.keeps_input[0] = true;
  memory.keeps_output = relu && residual;
  memory.saved = kStateRows * row;
  if (residual && !relu) memory.input_gradients[1] = 0;  // shares the output gradient
  // copies of the state in the kernels' dtype, statistics and sums
  memory.forward_workspace = 4 * row;
  memory.backward_workspace = 6 * row;
  if (in.size() != 3 || in[1] <= 1 || in[2] <= 1) return memory;
  const int64_t x = call.inputs[0].bytes(), copies = residual ? 2 : 1;
  memory.saved += memory.keeps_output ? 2 * x : x;
  memory.forward_workspace += memory.keeps_output ? x : copies * x;  // a retained output is one of the copies
  memory.keeps_input[0] = memory.keeps_output = false;
  if (residual && call.wanted[1]) memory.input_gradients[1] = x;
  memory.backward_workspace += residual && !relu ? x : 2 * x;
  return memory;
}

/// Mean, squared deviations and count, gathered from every worker; in backward two sums.
LayerExchanges BatchNorm::exchanges(const CallShapes& call) const {
  constexpr double kDouble = 8;
  const auto channels = double(call.inputs[0].shape[1]);
  LayerExchanges exchanges;
  const auto among = [&](int members, bool over_data) {
    exchanges.forward.push_back({RedistributionKind::all_gather, members * kDouble * (2 * channels + 1), 1, over_data});
    exchanges.backward.push_back({RedistributionKind::all_reduce, kDouble * 2 * channels, 1, over_data});
  };
  if (call.option->communicates_over_tensor_axis && call.tensor > 1) among(call.tensor, false);
  if (call.data > 1) among(call.data, true);
  return exchanges;
}

std::string BatchNorm::to_onnx(OnnxWriter& w) const {
  std::vector<std::string> inputs = w.with_parameters({w.in()});
  for (size_t i = 0; i < buffers().size(); ++i) inputs.push_back(w.buffer(i));
  std::string y = w.add("BatchNormalization", inputs, {{"epsilon", options_.epsilon}});
  if (options_.residual) y = w.add("Add", {y, w.in(1)});
  return options_.relu ? w.add("Relu", {y}) : y;
}

void BatchNorm::to_script(ScriptWriter& w) const {
  w.result(script_call("batch_norm", {w.in(), w.parameter(0), w.parameter(1), w.buffer(0), w.buffer(1), "self.training",
                                      script_literal(options_.momentum), script_literal(options_.epsilon), "False"}));
  if (options_.residual) w.result(script_call("add", {w.out(), w.in(1)}));
  if (options_.relu) w.result(script_call("relu", {w.out()}));
}

}  // namespace trireme
