#include "trireme/layers/pool2d.h"

#include <fmt/format.h>

#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {

Window Pool2d::rows() const {
  return {.kernel = kernel_.height, .stride = stride_.height, .padding = padding_.height, .ceil = ceil_mode_};
}

Window Pool2d::columns() const {
  return {.kernel = kernel_.width, .stride = stride_.width, .padding = padding_.width, .ceil = ceil_mode_};
}

Halo Pool2d::halo(const LayerCall& call) const { return is_split_by_height(call) ? halo_of(rows()) : Halo{}; }

Size2d Pool2d::padding(const LayerCall& call) const {
  return {is_split_by_height(call) ? 0 : padding_.height, padding_.width};
}

void Pool2d::check_sizes() const {
  const bool is_positive = kernel_.at_least(1) && stride_.at_least(1) && padding_.at_least(0);
  if (!is_positive || 2 * padding_.height > kernel_.height || 2 * padding_.width > kernel_.width)
    fail_shape(
        *this,
        fmt::format("kernel {}, stride {}, padding {}", to_string(kernel_), to_string(stride_), to_string(padding_)),
        "kernel and stride must be positive, the padding at most half the kernel", "correct the layer's options");
}

Shape Pool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  if (in[1] + 2 * padding_.height < kernel_.height || in[2] + 2 * padding_.width < kernel_.width)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("it is smaller than the {}x{} window", kernel_.height, kernel_.width),
               "use larger images or fewer pools");
  return {in[0], rows().extent(in[1]), columns().extent(in[2])};
}

double Pool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(output_shape(inputs)) * kernel_.area());
}

LayerExchanges Pool2d::exchanges(const CallShapes& call) const { return halo_exchanges(call, rows()); }

std::vector<ShardingOption> Pool2d::pool_options(const Shape& input, int degree, bool by_height) const {
  std::vector<ShardingOption> options = elementwise_options(1, input, degree, 1);
  if (by_height && degree > 1 && divides_by_height(rows(), input[1], degree))
    options.push_back(height_option(1, Placement::shard(2), 0, 0, !halo_of(rows()).none()));
  return options;
}

at::Tensor Pool2d::empty_output(const at::Tensor& input, const at::Tensor& extended) const {
  return empty_in_layout({0, input.size(1), rows().extent(input.size(2)), columns().extent(extended.size(3))},
                         extended.options());
}

at::Tensor Pool2d::own_gradient(LayerCall& call, const at::Tensor& extended) const {
  send_halo_gradient(call, extended, halo(call));
  return receive_halo_gradient(call, extended, halo(call));
}

}  // namespace trireme
