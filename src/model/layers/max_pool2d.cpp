#include "model/layers/max_pool2d.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <limits>
#include <tuple>

#include "model/layers/common.h"

namespace trireme {

Shape MaxPool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 3, "[channels, height, width]");
  Shape out{inputs[0][0], window().extent(inputs[0][1]), window().extent(inputs[0][2])};
  if (std::min(inputs[0][1], inputs[0][2]) + 2 * options_.padding < options_.kernel)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("it is smaller than the {0}x{0} window", options_.kernel), "use larger images or fewer pools");
  return out;
}

std::vector<ShardingOption> MaxPool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 1);
  if (degree > 1 && divides_by_height(window(), inputs[0][1], degree))
    options.push_back(height_option(1, Placement::shard(2), 0, 0, !halo_of(window()).none()));
  return options;
}

double MaxPool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(output_shape(inputs)) * options_.kernel * options_.kernel);
}

at::Tensor MaxPool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const MaxPool2dOptions& o = options_;
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  at::Tensor input = with_halo(call, inputs[0], halo(call), inputs[0].scalar_type(), kLeast);
  if (input.size(0) == 0) {
    call.saved = {input};
    return empty_in_layout({0, input.size(1), window().extent(inputs[0].size(2)), window().extent(input.size(3))},
                           input.options());
  }
  auto [output, indices] = at::max_pool2d_with_indices(input, {o.kernel, o.kernel}, {o.stride, o.stride},
                                                       {padding_y(call), o.padding});
  call.saved = {input, indices};
  return in_layout(output);
}

std::vector<at::Tensor> MaxPool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const MaxPool2dOptions& o = options_;
  const at::Tensor& input = call.saved.at(0);
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient;
  if (input.size(0) == 0)
    gradient = empty_in_layout(input.sizes(), input.options());
  else
    gradient = in_layout(at::max_pool2d_with_indices_backward(in_layout(output_gradient), input, {o.kernel, o.kernel},
                                                              {o.stride, o.stride}, {padding_y(call), o.padding}, {1, 1},
                                                              /*ceil_mode=*/false, call.saved.at(1)));
  send_halo_gradient(call, gradient, halo(call));
  return {receive_halo_gradient(call, gradient, halo(call))};
}

}  // namespace trireme
