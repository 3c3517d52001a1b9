#include "model/layers/position_embedding.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/layers/common.h"

namespace trireme {

std::vector<ParameterSpec> PositionEmbedding::parameters() const {
  return {{name() + ".weight", {positions_, width_}, Init::normal(0, deviation_)}};
}

Shape PositionEmbedding::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  if (inputs[0] != Shape{positions_, width_})
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("it must be [{}, {}]: positions, features", positions_, width_), "change the layer's sizes");
  return inputs[0];
}

std::vector<ShardingOption> PositionEmbedding::sharding_options(std::span<const Shape>, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, 1)};
  if (degree == 1) return options;
  auto split = [&](const char* name, int dim) {
    const std::vector<Placement> values{Placement::shard(dim + 1)}, parameters{Placement::shard(dim)};
    options.push_back({.name = name, .inputs = values, .output = values[0], .input_gradients = values,
                       .parameters = parameters, .parameter_gradients = parameters, .divides_work = true});
  };
  if (positions_ % degree == 0) split("sequence", 0);
  if (width_ % degree == 0) split("hidden", 1);
  return options;
}

double PositionEmbedding::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor PositionEmbedding::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  return at::add(inputs[0], call.parameter(0));
}

std::vector<at::Tensor> PositionEmbedding::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (call.wants_gradient(0)) call.add_gradient(0, output_gradient.sum(0));
  return {call.wants_input_gradient(0) ? output_gradient : at::Tensor()};
}

}  // namespace trireme
