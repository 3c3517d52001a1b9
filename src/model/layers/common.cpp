#include "model/layers/common.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "trireme/error.h"

namespace trireme {

void fail_shape(const Layer& layer, std::string what, std::string why, std::string next) {
  fail_user({.where = fmt::format("layer \"{}\" ({})", layer.name(), layer.kind()),
             .what = std::move(what),
             .why = std::move(why),
             .next = std::move(next)});
}

void expect_inputs(const Layer& layer, std::span<const Shape> inputs, size_t count) {
  if (inputs.size() == count) return;
  fail_shape(layer, fmt::format("got {} inputs", inputs.size()), fmt::format("it takes {}", count),
             "connect the missing inputs or remove the extra ones");
}

void expect_rank(const Layer& layer, const Shape& input, size_t dims, std::string_view meaning) {
  if (input.size() == dims) return;
  fail_shape(layer, fmt::format("input sample shape {}", to_string(input)),
             fmt::format("it needs {} dims {} per sample", dims, meaning), "reshape the input or use another layer");
}

void expect_last_dim(const Layer& layer, const Shape& input, int64_t width) {
  if (!input.empty() && input.back() == width) return;
  fail_shape(layer, fmt::format("input sample shape {}", to_string(input)),
             fmt::format("its last dim must be the {} features of this layer", width), "change the layer's width");
}

at::Tensor in_layout(const at::Tensor& tensor) {
  if (tensor.dim() != 4) return tensor.contiguous();
  if (tensor.numel() == 0) return tensor;
  at::Tensor ordered = tensor.contiguous(at::MemoryFormat::ChannelsLast);
  int64_t c = ordered.size(1), h = ordered.size(2), w = ordered.size(3);
  if (ordered.stride(1) == 1 && ordered.stride(3) == c && ordered.stride(2) == w * c) return ordered;
  return ordered.as_strided(ordered.sizes(), {h * w * c, 1, w * c, c});
}

at::Tensor empty_in_layout(at::IntArrayRef sizes, const at::TensorOptions& options) {
  auto format = sizes.size() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  return at::empty(sizes, options, format);
}

at::Tensor saved_shape(const at::Tensor& tensor) {
  at::Tensor shape = at::empty({tensor.dim()}, at::TensorOptions().dtype(at::kLong));
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), shape.data_ptr<int64_t>());
  return shape;
}

Shape restore_shape(const at::Tensor& saved) {
  const int64_t* sizes = saved.data_ptr<int64_t>();
  return Shape(sizes, sizes + saved.numel());
}

ShardingOption replicate_option(int inputs, int parameters, int buffers) {
  std::vector<Placement> in(size_t(inputs), Placement::replicate()), held(size_t(parameters), Placement::replicate());
  return {.name = "replicate",
          .inputs = in,
          .output = Placement::replicate(),
          .input_gradients = in,
          .parameters = held,
          .parameter_gradients = held,
          .buffers = std::vector<Placement>(size_t(buffers), Placement::replicate())};
}

namespace {

/// Returns the name, in plans, of a split along `dim` (from 1) of samples with `dims` dims.
std::string dim_name(int dim, size_t dims) {
  if (dims == 2) return dim == 1 ? "sequence" : "features";
  if (dims == 3 && dim > 1) return dim == 2 ? "height" : "width";
  return dim == 1 ? "channels" : fmt::format("dim{}", dim);
}

}  // namespace

std::vector<ShardingOption> elementwise_options(int inputs, const Shape& output, int degree, int last_dim) {
  std::vector<ShardingOption> options{replicate_option(inputs)};
  if (degree == 1) return options;
  for (int dim = 1; dim <= std::min(last_dim, int(output.size())); ++dim) {
    if (output[size_t(dim - 1)] % degree != 0) continue;
    std::vector<Placement> shards(size_t(inputs), Placement::shard(dim));
    options.push_back({.name = dim_name(dim, output.size()),
                       .inputs = shards,
                       .output = Placement::shard(dim),
                       .input_gradients = shards,
                       .divides_work = true});
  }
  return options;
}

std::vector<ShardingOption> norm_options(const Shape& input, int degree, int parameters) {
  std::vector<ShardingOption> options{replicate_option(1, parameters)};
  if (degree == 1 || input.size() < 2 || input[0] % degree != 0) return options;
  const std::vector<Placement> values{Placement::shard(1)};
  options.push_back({.name = "sequence",
                     .inputs = values,
                     .output = values[0],
                     .input_gradients = values,
                     .parameters = std::vector<Placement>(size_t(parameters), Placement::replicate()),
                     .parameter_gradients = std::vector<Placement>(size_t(parameters), Placement::partial()),
                     .divides_work = true});
  return options;
}

void add_product_gradient(LayerCall& call, int index, const at::Tensor& rows, const at::Tensor& values) {
  if (!call.wants_gradient(index)) return;
  const LayerCall::GradientTarget target = call.gradient_target(index);
  if (target.tensor.scalar_type() == values.scalar_type() && target.tensor.is_contiguous()) {
    target.tensor.view({rows.size(1), values.size(1)}).addmm_(rows.t(), values, target.accumulate ? 1 : 0, 1);
    return;
  }
  const at::Tensor gradient = at::mm(rows.t(), values).view(target.tensor.sizes());
  if (target.accumulate) target.tensor.add_(gradient);
  else target.tensor.copy_(gradient);
}

void add_zero_gradients(LayerCall& call, int parameters) {
  for (int i = 0; i < parameters; ++i)
    if (call.wants_gradient(i)) call.add_gradient(i, at::zeros_like(call.parameter(i)));
}

}  // namespace trireme
