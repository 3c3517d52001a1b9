#include "trireme/layers/linear.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

/// Saved tensors. The gradient [rows, out] is saved only if parameters are deferred.
enum LinearSaved { kLinearInput, kLinearOutputGradient };

/// Reshapes any [..., features] to [rows, features].
at::Tensor as_matrix(const at::Tensor& tensor, int64_t features) {
  if (tensor.dim() == 2 && tensor.size(1) == features) return tensor;
  return tensor.reshape({tensor.numel() / std::max<int64_t>(features, 1), features});
}

}  // namespace

Linear::Linear(std::string name, int64_t in, int64_t out, LinearOptions options)
    : Layer(std::move(name)), in_(in), out_(out), options_(std::move(options)) {
  if (options_.weight_name.empty()) options_.weight_name = this->name() + ".weight";
  if (options_.bias_name.empty()) options_.bias_name = this->name() + ".bias";
}

std::vector<ParameterSpec> Linear::parameters() const {
  const double bound = 1 / std::sqrt(double(in_));
  const bool normal = options_.deviation > 0;
  const Init weight = normal ? Init::normal(0, options_.deviation) : Init::uniform(-bound, bound);
  const Init bias = normal ? Init::constant(0) : weight;
  const Shape out = options_.parts > 0 ? Shape{options_.parts, out_} : Shape{out_};
  Shape shape = out;
  shape.insert(options_.transposed ? shape.begin() : shape.end(), in_);
  // in files the parts are concatenated in one dim
  const int64_t all = std::max<int64_t>(options_.parts, 1) * out_;
  const Shape in_file = options_.transposed ? Shape{in_, all} : Shape{all, in_};
  std::vector<ParameterSpec> specs{{.name = options_.weight_name,
                                    .shape = shape,
                                    .init = options_.weight_init.value_or(weight),
                                    .file_shape = in_file}};
  if (options_.bias)
    specs.push_back(
        {.name = options_.bias_name, .shape = out, .init = options_.bias_init.value_or(bias), .file_shape = {all}});
  return specs;
}

Shape Linear::outputs(const Shape& input, int64_t out) const {
  Shape shape = input;
  shape.back() = out;
  if (options_.parts > 0) shape.insert(shape.end() - 1, options_.parts);
  return shape;
}

at::Tensor Linear::as_columns(const at::Tensor& weight) const {
  const at::Tensor matrix = options_.parts > 0 ? weight.flatten(options_.transposed, options_.transposed + 1) : weight;
  return options_.transposed ? matrix : matrix.t();
}

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  if (inputs[0].empty() || inputs[0].back() != in_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("its last dim must be the {} input features of this layer", in_),
               "change the layer's input size or flatten the input first");
  return outputs(inputs[0], out_);
}

std::vector<ShardingOption> Linear::sharding_options(std::span<const Shape> inputs, int degree) const {
  int parameters = options_.bias ? 2 : 1;
  std::vector<ShardingOption> options{replicate_option(1, parameters)};
  if (degree == 1) return options;
  const bool parts = options_.parts > 0;
  const Placement whole = Placement::replicate(), last = Placement::shard(int(inputs[0].size()));
  const Placement last_output = Placement::shard(int(inputs[0].size()) + parts);
  auto held = [&](Placement weight, Placement bias) {
    return options_.bias ? std::vector{weight, bias} : std::vector{weight};
  };
  if (out_ % degree == 0) {
    auto shards = held(Placement::shard(output_dim()), Placement::shard(parts));
    options.push_back({.name = "columns",
                       .inputs = {whole},
                       .output = last_output,
                       .input_gradients = {Placement::partial()},
                       .parameters = shards,
                       .parameter_gradients = shards,
                       .divides_work = true});
  }
  if (in_ % degree == 0) {
    auto shards = held(Placement::shard(input_dim()), whole);
    options.push_back({.name = "rows",
                       .inputs = {last},
                       .output = Placement::partial(),
                       .input_gradients = {last},
                       .parameters = shards,
                       .parameter_gradients = shards,
                       .divides_work = true});
  }
  if (inputs[0].size() > 1 && inputs[0][0] % degree == 0) {
    const Placement sequence = Placement::shard(1);
    options.push_back({.name = "sequence",
                       .inputs = {sequence},
                       .output = sequence,
                       .input_gradients = {sequence},
                       .parameters = held(whole, whole),
                       .parameter_gradients = held(Placement::partial(), Placement::partial()),
                       .divides_work = true});
  }
  return options;
}

double Linear::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(element_count(inputs[0])) * double(out_ * std::max<int64_t>(options_.parts, 1));
}

at::Tensor Linear::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor weight = as_columns(call.parameter(0));
  at::Tensor input = inputs[0].to(weight.scalar_type());
  at::Tensor x = as_matrix(input, weight.size(0));
  call.saved = {input};
  // under "rows" the outputs are summed over the tensor axis, so only one worker adds the bias
  bool add_bias = options_.bias && !(call.option && call.option->output.is_partial() && call.tensor_index != 0);
  at::Tensor y = add_bias ? at::addmm(call.parameter(1).flatten(), x, weight) : at::mm(x, weight);
  return y.view(outputs(input.sizes().vec(), weight.size(1) / std::max<int64_t>(options_.parts, 1)));
}

void Linear::restore(LayerCall& call, std::span<const at::Tensor> inputs) const {
  call.saved = {inputs[0].to(call.parameter(0).scalar_type())};
}

std::vector<at::Tensor> Linear::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved.at(kLinearInput);
  const at::Tensor weight = as_columns(call.parameter(0));
  at::Tensor gy = as_matrix(output_gradient, weight.size(1)).to(weight.scalar_type());
  at::Tensor input_gradient;
  if (call.wants_input_gradient(0)) input_gradient = at::mm(gy, weight.t()).view(input.sizes());
  if (call.defer_parameters) call.saved = {input, gy};
  else add_parameter_gradients(call, input, gy);
  return {input_gradient};
}

void Linear::backward_parameters(LayerCall& call) const {
  add_parameter_gradients(call, call.saved.at(kLinearInput), call.saved.at(kLinearOutputGradient));
}

void Linear::add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gy) const {
  if (gy.size(0) == 0) return add_zero_gradients(call, options_.bias ? 2 : 1);
  const at::Tensor x = as_matrix(input, input.size(-1));
  if (options_.transposed) add_product_gradient(call, 0, x, gy);
  else add_product_gradient(call, 0, gy, x);
  if (!options_.bias || !call.wants_gradient(1)) return;
  const at::IntArrayRef sizes = call.parameter(1).sizes();
  call.add_gradient(1, options_.idle_bias ? at::zeros(sizes, gy.options()) : gy.sum(0).view(sizes));
}

LayerMemory Linear::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  if (call.parameters.size() > 1) memory.backward_workspace = call.parameters[1].bytes();
  return memory;
}

std::vector<OperatorWork> Linear::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 1, true);
}

std::string Linear::to_onnx(OnnxWriter& w) const {
  std::string weight = w.parameter(0);
  if (!options_.transposed) weight = w.transposed(weight);
  std::string y = w.add("MatMul", {w.in(), weight});
  if (options_.bias) y = w.add("Add", {y, w.parameter(1)});
  if (options_.parts == 0) return y;
  OnnxWriter::List sizes(w.input_shape().size(), 0);  // 0: unchanged
  sizes.insert(sizes.end(), {options_.parts, w.shape().back()});
  return w.add("Reshape", {y, w.constant(sizes)});
}

void Linear::to_script(ScriptWriter& w) const {
  if (options_.transposed) {
    w.result(script_call("matmul", {w.in(), w.parameter(0)}));
    if (options_.bias) w.result(script_call("add", {w.out(), w.parameter(1)}));
  } else {
    w.result(script_call("linear", {w.in(), w.parameter(0), w.parameter(1)}));
  }
  if (options_.parts == 0) return;
  std::vector<std::string> sizes;
  for (size_t d = 0; d < w.input_shape().size(); ++d) sizes.push_back(fmt::format("{}.size({})", w.in(), d));
  w.result(fmt::format("torch.reshape({}, [{}, {}, {}])", w.out(), fmt::join(sizes, ", "), options_.parts,
                       w.shape().back()));
}

}  // namespace trireme
