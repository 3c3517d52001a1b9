#include "trireme/layers/max_pool_indices.h"

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <fmt/format.h>

#include <vector>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

constexpr int64_t kLargestWindow = 256;  // number of positions that a byte can represent

/// Finds the position of each window's maximum: images [n, h, w, c], positions [n, h / window, w / window, c].
template <class T>
void find_largest(const at::Tensor& images, const Size2d& window, uint8_t* position) {
  const int64_t n = images.size(0), channels = images.size(1), height = images.size(2), width = images.size(3);
  const int64_t rows = height / window.height, columns = width / window.width;
  const T* image = images.data_ptr<T>();
  std::vector<T> largest(static_cast<size_t>(channels));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t y = 0; y < rows; ++y)
      for (int64_t x = 0; x < columns; ++x, position += channels)
        for (int64_t tap = 0; tap < window.area(); ++tap) {
          const int64_t row = y * window.height + tap / window.width, column = x * window.width + tap % window.width;
          const T* pixel = image + ((i * height + row) * width + column) * channels;
          for (int64_t c = 0; c < channels; ++c) {
            if (tap > 0 && !(pixel[c] > largest[size_t(c)])) continue;
            largest[size_t(c)] = pixel[c];
            position[c] = uint8_t(tap);
          }
        }
}

/// find_largest for images that the host cannot read. Returns the positions [n, c, h / window, w / window].
at::Tensor find_largest_on_device(const at::Tensor& images, const Size2d& window) {
  const int64_t n = images.size(0), channels = images.size(1);
  const int64_t rows = images.size(2) / window.height, columns = images.size(3) / window.width;
  const at::Tensor whole = images.narrow(2, 0, rows * window.height).narrow(3, 0, columns * window.width);
  const at::Tensor windows =
      whole.unflatten(3, {columns, window.width}).unflatten(2, {rows, window.height}).permute({0, 2, 4, 1, 3, 5});
  const at::Tensor position = windows.reshape({n, rows, columns, channels, window.area()}).argmax(-1);
  return in_layout(position.to(at::kByte).permute({0, 3, 1, 2}));
}

}  // namespace

MaxPoolIndices::MaxPoolIndices(std::string name, Size2d window) : Layer(std::move(name)), window_(window) {
  if (!window.at_least(1) || window.area() > kLargestWindow)
    fail_shape(*this, fmt::format("window {}", to_string(window)),
               fmt::format("it must have 1 to {} pixels", kLargestWindow), "use a smaller window");
}

Shape MaxPoolIndices::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  expect_rank(*this, in, 3, "[channels, height, width]");
  if (in[1] < window_.height || in[2] < window_.width)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("it is smaller than the window ({})", to_string(window_)),
               "use larger images or fewer pools");
  return {in[0], in[1] / window_.height, in[2] / window_.width};
}

std::vector<ShardingOption> MaxPoolIndices::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 1);
  if (degree > 1 && inputs[0][1] % (degree * window_.height) == 0)
    options.push_back(height_option(1, Placement::shard(2), 0, 0, /*communicates=*/false));
  return options;
}

double MaxPoolIndices::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor MaxPoolIndices::forward(LayerCall&, std::span<const at::Tensor> inputs) const {
  const at::Tensor images = in_layout(inputs[0]);
  if (!on_host(images)) return find_largest_on_device(images, window_);
  at::Tensor positions =
      empty_in_layout({images.size(0), images.size(1), images.size(2) / window_.height, images.size(3) / window_.width},
                      images.options().dtype(at::kByte));
  auto* position = positions.data_ptr<uint8_t>();
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, images.scalar_type(), "max_pool_indices",
                                 [&] { find_largest<scalar_t>(images, window_, position); });
  return positions;
}

LayerMemory MaxPoolIndices::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.input_gradients = {0};
  return memory;
}

/// The position of each window's largest value, the first one among equals.
std::string MaxPoolIndices::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const int64_t channels = w.shape()[0], rows = w.shape()[1], columns = w.shape()[2];
  const int64_t high = window_.height, wide = window_.width;
  const std::string whole = w.add(
      "Slice", {w.in(), w.constant(List{0, 0}), w.constant(List{rows * high, columns * wide}), w.constant(List{2, 3})});
  const std::string split = w.add("Reshape", {whole, w.constant(List{-1, channels * rows, high, columns, wide})});
  const std::string windows = w.add("Transpose", {split}, {{"perm", List{0, 1, 3, 2, 4}}});
  const std::string flat = w.add("Reshape", {windows, w.constant(List{-1, channels, rows, columns, high * wide})});
  return w.add("ArgMax", {flat}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}});
}

/// PyTorch returns positions in the whole image, this layer positions within the window.
void MaxPoolIndices::to_script(ScriptWriter& w) const {
  const std::string window = script_literal(window_.list()), at = w.own("at"), width = w.own("width");
  w.line(
      fmt::format("{}, {} = torch.max_pool2d_with_indices({}, {}, {})", w.own("largest"), at, w.in(), window, window));
  w.set(width, w.in() + ".size(3)");
  const std::string row = fmt::format("torch.remainder(torch.floor_divide({}, {}), {})", at, width, window_.height);
  const std::string column = fmt::format("torch.remainder(torch.remainder({}, {}), {})", at, width, window_.width);
  w.result(fmt::format("torch.add(torch.mul({}, {}), {})", row, window_.width, column));
}

}  // namespace trireme
