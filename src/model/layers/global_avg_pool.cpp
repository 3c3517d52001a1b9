#include "model/layers/global_avg_pool.h"

#include <ATen/ATen.h>

#include "model/layers/common.h"

namespace trireme {

Shape GlobalAvgPool::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 3, "[channels, height, width]");
  return {inputs[0][0]};
}

std::vector<ShardingOption> GlobalAvgPool::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, 1);
}

double GlobalAvgPool::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor GlobalAvgPool::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& input = inputs[0];
  call.saved = {saved_shape(input)};
  if (input.size(0) == 0) return at::empty({0, input.size(1)}, input.options());
  return at::mean(input, {2, 3});
}

std::vector<at::Tensor> GlobalAvgPool::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  Shape shape = restore_shape(call.saved.at(0));
  at::Tensor gradient = empty_in_layout(shape, output_gradient.options());
  at::Tensor share = output_gradient / double(shape[2] * shape[3]);
  gradient.copy_(share.unsqueeze(2).unsqueeze(3).expand(shape));
  return {gradient};
}

}  // namespace trireme
