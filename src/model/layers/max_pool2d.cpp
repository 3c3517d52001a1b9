#include "model/layers/max_pool2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <tuple>

#include "model/layers/common.h"

namespace trireme {

Shape MaxPool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 3, "[channels, height, width]");
  Shape out{inputs[0][0], extent(inputs[0][1]), extent(inputs[0][2])};
  if (std::min(inputs[0][1], inputs[0][2]) + 2 * options_.padding < options_.kernel)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("it is smaller than the {0}x{0} window", options_.kernel), "use larger images or fewer pools");
  return out;
}

std::vector<ShardingOption> MaxPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, 1);
}

double MaxPool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(output_shape(inputs)) * options_.kernel * options_.kernel);
}

at::Tensor MaxPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const MaxPool2dOptions& o = options_;
  at::Tensor input = in_layout(inputs[0]);
  if (input.size(0) == 0) {
    call.saved = {input};
    return empty_in_layout({0, input.size(1), extent(input.size(2)), extent(input.size(3))}, input.options());
  }
  auto [output, indices] = at::max_pool2d_with_indices(input, {o.kernel, o.kernel}, {o.stride, o.stride},
                                                       {o.padding, o.padding});
  call.saved = {input, indices};
  return in_layout(output);
}

std::vector<at::Tensor> MaxPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const MaxPool2dOptions& o = options_;
  const at::Tensor& input = call.saved.at(0);
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  if (input.size(0) == 0) return {empty_in_layout(input.sizes(), input.options())};
  return {in_layout(at::max_pool2d_with_indices_backward(in_layout(output_gradient), input, {o.kernel, o.kernel},
                                                         {o.stride, o.stride}, {o.padding, o.padding}, {1, 1},
                                                         /*ceil_mode=*/false, call.saved.at(1)))};
}

}  // namespace trireme
