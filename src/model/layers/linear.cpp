#include "model/layers/linear.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "model/layers/common.h"

namespace trireme {
namespace {

/// What is saved; the gradient [rows, out] only when parameters are deferred.
enum Saved { kInput, kOutputGradient };

/// [rows, in] of any [..., in].
at::Tensor as_matrix(const at::Tensor& tensor) {
  return tensor.dim() == 2 ? tensor : tensor.reshape({tensor.numel() / std::max<int64_t>(tensor.size(-1), 1), tensor.size(-1)});
}

Shape with_last(const at::Tensor& tensor, int64_t last) {
  Shape shape = tensor.sizes().vec();
  shape.back() = last;
  return shape;
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
  std::vector<ParameterSpec> specs{{options_.weight_name, {out_, in_}, weight}};
  if (options_.bias) specs.push_back({options_.bias_name, {out_}, normal ? Init::constant(0) : weight});
  return specs;
}

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  if (inputs[0].empty() || inputs[0].back() != in_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("its last dim must be the {} input features of this layer", in_),
               "change the layer's input size or flatten the input first");
  Shape shape = inputs[0];
  shape.back() = out_;
  return shape;
}

std::vector<ShardingOption> Linear::sharding_options(std::span<const Shape> inputs, int degree) const {
  int parameters = options_.bias ? 2 : 1;
  std::vector<ShardingOption> options{replicate_option(1, parameters)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), last = Placement::shard(int(inputs[0].size()));
  auto held = [&](Placement weight, Placement bias) {
    return options_.bias ? std::vector{weight, bias} : std::vector{weight};
  };
  if (out_ % degree == 0) {
    auto shards = held(Placement::shard(0), Placement::shard(0));
    options.push_back({.name = "columns", .inputs = {whole}, .output = last, .input_gradients = {Placement::partial()},
                       .parameters = shards, .parameter_gradients = shards, .divides_work = true});
  }
  if (in_ % degree == 0) {
    auto shards = held(Placement::shard(1), whole);
    options.push_back({.name = "rows", .inputs = {last}, .output = Placement::partial(), .input_gradients = {last},
                       .parameters = shards, .parameter_gradients = shards, .divides_work = true});
  }
  if (inputs[0].size() > 1 && inputs[0][0] % degree == 0) {
    const Placement sequence = Placement::shard(1);
    options.push_back({.name = "sequence", .inputs = {sequence}, .output = sequence, .input_gradients = {sequence},
                       .parameters = held(whole, whole), .parameter_gradients = held(Placement::partial(), Placement::partial()),
                       .divides_work = true});
  }
  return options;
}

double Linear::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(element_count(inputs[0])) * double(out_);
}

at::Tensor Linear::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& weight = call.parameter(0);
  at::Tensor input = inputs[0].to(weight.scalar_type());
  at::Tensor x = as_matrix(input);
  call.saved = {input};
  // under "rows" the outputs are summed over the tensor axis: one worker brings the bias
  bool add_bias = options_.bias && !(call.option && call.option->output.is_partial() && call.tensor_index != 0);
  at::Tensor y = add_bias ? at::addmm(call.parameter(1), x, weight.t()) : at::mm(x, weight.t());
  return input.dim() == 2 ? y : y.view(with_last(input, weight.size(0)));
}

std::vector<at::Tensor> Linear::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved.at(kInput);
  const at::Tensor& weight = call.parameter(0);
  at::Tensor gy = as_matrix(output_gradient).to(weight.scalar_type());
  at::Tensor input_gradient;
  if (call.wants_input_gradient(0)) {
    input_gradient = at::mm(gy, weight);
    if (input.dim() != 2) input_gradient = input_gradient.view(input.sizes());
  }
  if (call.defer_parameters)
    call.saved = {input, gy};
  else
    add_parameter_gradients(call, input, gy);
  return {input_gradient};
}

void Linear::backward_parameters(LayerCall& call) const {
  add_parameter_gradients(call, call.saved.at(kInput), call.saved.at(kOutputGradient));
}

void Linear::add_parameter_gradients(LayerCall& call, const at::Tensor& input, const at::Tensor& gy) const {
  if (gy.size(0) == 0) return add_zero_gradients(call, options_.bias ? 2 : 1);
  add_product_gradient(call, 0, gy, as_matrix(input));
  if (options_.bias && call.wants_gradient(1)) call.add_gradient(1, gy.sum(0));
}

}  // namespace trireme
