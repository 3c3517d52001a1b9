#include "model/layers/dropout.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "model/layers/common.h"

namespace trireme {

Dropout::Dropout(std::string name, double probability) : Layer(std::move(name)), probability_(probability) {
  if (!(probability >= 0 && probability < 1))
    fail_shape(*this, fmt::format("probability {}", probability), "it must be at least 0 and below 1", "correct the option");
}

Shape Dropout::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  return inputs[0];
}

std::vector<ShardingOption> Dropout::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
}

double Dropout::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

/// Byte mask of the local shard in logical order. Random word of an element: Philox keyed by seed and layer, stream = step,
/// index = sample in the global batch * elements of a sample + element in the whole sample.
at::Tensor Dropout::draw_mask(const LayerCall& call, at::IntArrayRef sizes) const {
  at::Tensor mask = at::empty(sizes, at::TensorOptions().dtype(at::kByte));
  uint8_t* kept = mask.data_ptr<uint8_t>();
  const size_t dims = sizes.size();
  // offset of the local shard in the whole sample, and the whole sample's sizes, per dim
  Shape full(sizes.begin(), sizes.end()), offset(dims, 0);
  if (call.option && call.option->output.is_shard()) {
    auto dim = size_t(call.option->output.dim);
    full[dim] *= call.tensor_degree;
    offset[dim] = call.output_box.at(dim).begin;
  }
  int64_t sample_elements = 1, run = dims > 1 ? sizes[dims - 1] : 1, runs = 1;
  for (size_t d = 1; d < dims; ++d) sample_elements *= full[d];
  for (size_t d = 1; d + 1 < dims; ++d) runs *= sizes[d];

  const Philox random(random_key(call.seed, name() + ":dropout"));
  const auto drop_below = uint64_t(std::llround(probability_ * 4294967296.0));
  std::array<uint32_t, 4> words{};
  uint64_t drawn = ~uint64_t{0};  // index of the counter that `words` came from
  for (int64_t sample = 0; sample < sizes[0]; ++sample)
    for (int64_t r = 0; r < runs; ++r) {
      int64_t first = 0, rest = r, stride = dims > 1 ? full[dims - 1] : 1;
      for (size_t d = dims - 1; d-- > 1;) {
        first += (offset[d] + rest % sizes[d]) * stride;
        rest /= sizes[d];
        stride *= full[d];
      }
      if (dims > 1) first += offset[dims - 1];
      uint64_t index = uint64_t(call.first_sample + sample) * uint64_t(sample_elements) + uint64_t(first);
      for (int64_t i = 0; i < run; ++i, ++index) {
        if (index / 4 != drawn) words = random(drawn = index / 4, uint64_t(call.step));
        *kept++ = words[index % 4] >= drop_below;
      }
    }
  return mask;
}

at::Tensor Dropout::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  if (!call.training || probability_ == 0) return inputs[0];
  at::Tensor input = in_layout(inputs[0]);
  at::Tensor mask = in_layout(draw_mask(call, input.sizes()));
  call.saved = {mask};
  return at::mul(input, mask).mul_(1 / (1 - probability_));
}

std::vector<at::Tensor> Dropout::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  if (!call.training || probability_ == 0) return {output_gradient};
  return {at::mul(in_layout(output_gradient), call.saved.at(0)).mul_(1 / (1 - probability_))};
}

}  // namespace trireme
