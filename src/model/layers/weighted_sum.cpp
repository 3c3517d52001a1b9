#include "trireme/layers/weighted_sum.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

WeightedSum::WeightedSum(std::string name, std::vector<double> training, std::vector<double> evaluation)
    : Layer(std::move(name)), training_(std::move(training)), evaluation_(std::move(evaluation)) {
  if (training_.empty() || training_.size() != evaluation_.size())
    fail_shape(*this, fmt::format("{} weights for training, {} for evaluation", training_.size(), evaluation_.size()),
               "there must be one of each per input", "correct the layer's weights");
}

Shape WeightedSum::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, training_.size());
  for (const Shape& input : inputs)
    if (input != inputs[0])
      fail_shape(*this, fmt::format("input sample shapes {} and {}", to_string(inputs[0]), to_string(input)),
                 "all must be equal", "reshape them to one shape first");
  return inputs[0];
}

std::vector<ShardingOption> WeightedSum::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(int(inputs.size()), inputs[0], degree, int(inputs[0].size()));
}

double WeightedSum::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(inputs.size()) * double(element_count(inputs[0]));
}

at::Tensor WeightedSum::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor sum;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const double weight = weights(call)[i];
    if (weight == 0) continue;
    if (sum.defined()) sum.add_(inputs[i], weight);
    else sum = at::mul(inputs[i], weight);
  }
  return sum.defined() ? sum : at::zeros_like(inputs[0]);
}

std::vector<at::Tensor> WeightedSum::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  std::vector<at::Tensor> gradients;
  for (size_t i = 0; i < training_.size(); ++i)
    gradients.push_back(call.wants_input_gradient(int(i)) ? at::mul(output_gradient, weights(call)[i]) : at::Tensor());
  return gradients;
}

LayerMemory WeightedSum::memory(const CallShapes& call) const { return plain_memory(call); }

}  // namespace trireme
