#include "trireme/layers/max_unpool2d.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <fmt/format.h>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

/// Calls visit(offset in the pooled images, offset in the large ones) for every pooled value; both in channels_last
/// order.
template <class Visit>
void for_each_maximum(const at::Tensor& indices, const at::Tensor& large, const Size2d& window, const Visit& visit) {
  const int64_t n = indices.size(0), channels = indices.size(1), rows = indices.size(2), columns = indices.size(3);
  const int64_t height = large.size(2), width = large.size(3);
  const uint8_t* index = indices.data_ptr<uint8_t>();
  int64_t small = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x)
        for (int64_t c = 0; c < channels; ++c, ++small) {
          const int64_t row = y * window.height + index[small] / window.width,
                        column = x * window.width + index[small] % window.width;
          visit(small, ((i * height + row) * width + column) * channels + c);
        }
}

/// The pixel in the large images of each maximum, for indices that the host cannot read [n, rows * columns, c].
at::Tensor pixels_of_maxima(const at::Tensor& indices, int64_t width, const Size2d& window) {
  const at::TensorOptions integers = indices.options().dtype(at::kLong).memory_format(c10::nullopt);
  const at::Tensor index = indices.permute({0, 2, 3, 1}).to(at::kLong);  // [n, rows, columns, c]
  const at::Tensor first = at::add(at::arange(indices.size(2), integers).mul_(window.height * width).unsqueeze(1),
                                   at::arange(indices.size(3), integers).mul_(window.width));
  const at::Tensor row = at::floor_divide(index, window.width);
  // row * width + column, where column = index - row * window width
  return at::add(at::add(index, row, width - window.width), first.unsqueeze(2)).flatten(1, 2);
}

/// [n, c, h, w] in channels_last order as [n, h * w, c], without a copy.
at::Tensor by_pixel(const at::Tensor& images) { return images.permute({0, 2, 3, 1}).flatten(1, 2); }

}  // namespace

MaxUnpool2d::MaxUnpool2d(std::string name, MaxUnpool2dOptions options) : Layer(std::move(name)), options_(options) {
  if (!options_.window.at_least(1) || !options_.size.at_least(0))
    fail_shape(*this, fmt::format("window {}, size {}", to_string(options_.window), to_string(options_.size)),
               "the window must be positive (the size may be 0)", "correct the layer's options");
}

Shape MaxUnpool2d::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  if (inputs[1] != in)
    fail_shape(*this, fmt::format("sample shapes {} of values and {} of indices", to_string(in), to_string(inputs[1])),
               "both must be equal", "take the indices from the pool that the values belong to");
  const Size2d least{in[1] * options_.window.height, in[2] * options_.window.width};
  if (options_.size == Size2d(0)) return {in[0], least.height, least.width};
  if (options_.size.height < least.height || options_.size.width < least.width)
    fail_shape(*this, fmt::format("size {} for inputs {}", to_string(options_.size), to_string(in)),
               fmt::format("it must be at least {}x{}", least.height, least.width), "give the size that the pool read");
  return {in[0], options_.size.height, options_.size.width};
}

std::vector<ShardingOption> MaxUnpool2d::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(2, inputs[0], degree, 1);
  const bool rows_are_apart = output_shape(inputs)[1] == inputs[0][1] * options_.window.height;
  if (degree > 1 && rows_are_apart && inputs[0][1] % degree == 0)
    options.push_back(height_option(2, Placement::shard(2), 0, 0, /*communicates=*/false));
  return options;
}

double MaxUnpool2d::forward_flops(std::span<const Shape> inputs) const {
  return double(element_count(output_shape(inputs)));
}

Size2d MaxUnpool2d::extent(const LayerCall& call, int64_t height, int64_t width) const {
  if (options_.size == Size2d(0)) return {height * options_.window.height, width * options_.window.width};
  return {options_.size.height / (is_split_by_height(call) ? call.tensor_degree : 1), options_.size.width};
}

void MaxUnpool2d::check_indices(const at::Tensor& indices) const {
  if (indices.numel() == 0) return;
  const int64_t largest = indices.max().item<int64_t>();
  if (largest >= options_.window.area())
    fail_shape(
        *this, fmt::format("index {}", largest),
        fmt::format("a window of {} has positions 0 to {}", to_string(options_.window), options_.window.area() - 1),
        "give it the MaxPoolIndices of the pool with the same window");
}

at::Tensor MaxUnpool2d::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor values = in_layout(inputs[0]), indices = in_layout(inputs[1].to(at::kByte));
  if (on_host(indices)) check_indices(indices);
  const Size2d size = extent(call, values.size(2), values.size(3));
  at::Tensor output =
      empty_in_layout({values.size(0), values.size(1), size.height, size.width}, values.options()).zero_();
  call.saved = {indices};
  if (!on_host(values)) {
    by_pixel(output).scatter_(1, pixels_of_maxima(indices, size.width, options_.window), by_pixel(values));
    return output;
  }
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, values.scalar_type(), "max_unpool2d", [&] {
    const scalar_t* from = values.data_ptr<scalar_t>();
    scalar_t* to = output.data_ptr<scalar_t>();
    for_each_maximum(indices, output, options_.window, [&](int64_t small, int64_t large) { to[large] = from[small]; });
  });
  return output;
}

std::vector<at::Tensor> MaxUnpool2d::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor(), at::Tensor()};
  const at::Tensor& indices = call.saved.at(0);
  const at::Tensor gradient = in_layout(output_gradient);
  if (!on_host(gradient)) {
    const at::Tensor pixels = pixels_of_maxima(indices, gradient.size(3), options_.window);
    return {by_pixel(gradient).gather(1, pixels).unflatten(1, indices.sizes().slice(2)).permute({0, 3, 1, 2}),
            at::Tensor()};
  }
  at::Tensor result = empty_in_layout(indices.sizes(), gradient.options());
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, gradient.scalar_type(), "max_unpool2d_backward", [&] {
    const scalar_t* from = gradient.data_ptr<scalar_t>();
    scalar_t* to = result.data_ptr<scalar_t>();
    for_each_maximum(indices, gradient, options_.window,
                     [&](int64_t small, int64_t large) { to[small] = from[large]; });
  });
  return {result, at::Tensor()};
}

LayerMemory MaxUnpool2d::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.keeps_input[1] = true;
  return memory;
}

/// Every window holds the value at the index and zeros elsewhere; the remainder of a larger image is zeros.
std::string MaxUnpool2d::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const int64_t high = options_.window.height, wide = options_.window.width;
  const int64_t channels = w.shape()[0], rows = w.input_shape()[1], columns = w.input_shape()[2];
  const std::string positions = w.constant(at::arange(high * wide, at::kLong));
  const auto at_end = [&](const std::string& tensor) { return w.add("Unsqueeze", {tensor, w.constant(List{-1})}); };
  const std::string flat =
      w.add("Where", {w.add("Equal", {at_end(w.in(1)), positions}), at_end(w.in(0)), w.constant(0.0)});
  const std::string windows = w.add("Reshape", {flat, w.constant(List{-1, channels * rows, columns, high, wide})});
  const std::string split = w.add("Transpose", {windows}, {{"perm", List{0, 1, 3, 2, 4}}});
  const std::string whole = w.add("Reshape", {split, w.constant(List{-1, channels, rows * high, columns * wide})});
  const int64_t below = w.shape()[1] - rows * high, right = w.shape()[2] - columns * wide;
  if (below == 0 && right == 0) return whole;
  return w.add("Pad", {whole, w.constant(List{0, 0, 0, 0, 0, 0, below, right})});
}

void MaxUnpool2d::to_script(ScriptWriter& w) const {
  const Size2d &window = options_.window, &size = options_.size;
  const std::string at = w.in(1), row = w.own("row"), column = w.own("column"), width = w.own("width");
  const std::string height =
      size.height > 0 ? fmt::to_string(size.height) : fmt::format("{}.size(2) * {}", w.in(), window.height);
  w.set(width, size.height > 0 ? fmt::to_string(size.width) : fmt::format("{}.size(3) * {}", w.in(), window.width));
  const auto first = [&](int dim, int64_t step) {
    return fmt::format("torch.mul(torch.arange({}.size({}), device={}.device), {})", at, dim, at, step);
  };
  w.set(row, fmt::format("torch.add(torch.floor_divide({}, {}), torch.unsqueeze({}, 1))", at, window.width,
                         first(2, window.height)));
  w.set(column, fmt::format("torch.add(torch.remainder({}, {}), {})", at, window.width, first(3, window.width)));
  w.result(fmt::format("torch.max_unpool2d({}, torch.add(torch.mul({}, {}), {}), [{}, {}])", w.in(), row, width, column,
                       height, width));
}

}  // namespace trireme
