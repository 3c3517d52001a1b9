#include "trireme/layers/position_embedding.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

/// The position of the first of the worker's `local` positions.
int64_t first_position(const LayerCall& call, int64_t local) {
  return call.option && call.option->name == "sequence" ? local * call.tensor_index : 0;
}

}  // namespace

PositionEmbedding::PositionEmbedding(std::string name, int64_t positions, int64_t width, double deviation,
                                     PositionEmbeddingOptions options)
    : Layer(std::move(name)),
      positions_(positions),
      width_(width),
      deviation_(deviation),
      options_(std::move(options)) {
  if (options_.parameter_name.empty()) options_.parameter_name = this->name() + ".weight";
}

std::vector<ParameterSpec> PositionEmbedding::parameters() const {
  const Shape shape = options_.batch_dim ? Shape{1, positions_, width_} : Shape{positions_, width_};
  return {{options_.parameter_name, shape, Init::normal(0, deviation_)}};
}

Shape PositionEmbedding::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  if (inputs[0][0] > positions_ || inputs[0][1] != width_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("it must be [at most {}, {}]: positions, features", positions_, width_),
               "change the layer's sizes");
  return inputs[0];
}

std::vector<ShardingOption> PositionEmbedding::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, 1)};
  if (degree == 1) return options;
  auto split = [&](const char* name, int dim, const Placement& parameter, const Placement& gradient) {
    const std::vector<Placement> values{Placement::shard(dim)};
    options.push_back({.name = name,
                       .inputs = values,
                       .output = values[0],
                       .input_gradients = values,
                       .parameters = {parameter},
                       .parameter_gradients = {gradient},
                       .divides_work = true});
  };
  if (inputs[0][0] % degree == 0) split("sequence", 1, Placement::replicate(), Placement::partial());
  const Placement columns = Placement::shard(1 + options_.batch_dim);
  if (width_ % degree == 0) split("hidden", 2, columns, columns);
  return options;
}

double PositionEmbedding::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(inputs[0]));
}

at::Tensor PositionEmbedding::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const int64_t local = inputs[0].size(1);
  return at::add(inputs[0], table(call.parameter(0)).narrow(0, first_position(call, local), local));
}

/// `gradient`: [positions starting at `first`, width]; the gradient of other positions is zero.
void PositionEmbedding::add_table_gradient(LayerCall& call, const at::Tensor& gradient, int64_t first) const {
  const LayerCall::GradientTarget target = call.gradient_target(0);
  if (!target.accumulate) target.tensor.zero_();
  table(target.tensor).narrow(0, first, gradient.size(0)).add_(gradient);
}

std::vector<at::Tensor> PositionEmbedding::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (call.wants_gradient(0))
    add_table_gradient(call, output_gradient.sum(0), first_position(call, output_gradient.size(1)));
  return {call.wants_input_gradient(0) ? output_gradient : at::Tensor()};
}

/// The gradient is summed into a table of positions; the input's gradient is the output's.
LayerMemory PositionEmbedding::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.input_gradients = {0};
  memory.backward_workspace = call.samples == 0 ? 0 : call.output.bytes() / call.samples;
  return memory;
}

std::string PositionEmbedding::to_onnx(OnnxWriter& w) const {
  const OnnxWriter::List first{0}, end{w.shape()[0]}, dim{options_.batch_dim ? 1 : 0};
  const std::string rows = w.add("Slice", {w.parameter(0), w.constant(first), w.constant(end), w.constant(dim)});
  return w.add("Add", {w.in(), rows});
}

void PositionEmbedding::to_script(ScriptWriter& w) const {
  w.result(fmt::format("torch.add({0}, torch.narrow({1}, {2}, 0, {0}.size(1)))", w.in(), w.parameter(0),
                       int(options_.batch_dim)));
}

}  // namespace trireme
