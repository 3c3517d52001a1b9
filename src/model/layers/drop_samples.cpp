#include "trireme/layers/drop_samples.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/keep_mask.h"

namespace trireme {

DropSamples::DropSamples(std::string name, double probability, int dims)
    : Layer(std::move(name)), probability_(probability), dims_(dims) {
  if (!(probability >= 0 && probability < 1))
    fail_shape(*this, fmt::format("probability {}", probability), "it must be at least 0 and below 1",
               "correct the model");
}

Shape DropSamples::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  if (dims_ > int(inputs[0].size()))
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("its mask has {} dims per sample", dims_), "use it on samples with more dims");
  return inputs[0];
}

std::vector<ShardingOption> DropSamples::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
}

double DropSamples::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor DropSamples::draw_factors(const LayerCall& call, const at::Tensor& input) const {
  SamplePart part;
  part.local = Shape(input.sizes().begin() + 1, input.sizes().begin() + 1 + dims_);
  part.full = part.local;
  part.offset.assign(part.local.size(), 0);
  if (call.option != nullptr && call.option->output.is_shard() && call.option->output.dim <= dims_) {
    const auto dim = size_t(call.option->output.dim);
    part.full[dim - 1] *= call.tensor_degree;
    part.offset[dim - 1] = call.output_box.at(dim).begin;
  }
  Shape sizes = part.local;
  sizes.insert(sizes.begin(), input.size(0));
  sizes.resize(size_t(input.dim()), 1);
  return draw_keep_mask(call, *this, probability_, input.size(0), part, input.device())
      .view(sizes)
      .to(input.scalar_type())
      .mul_(1 / (1 - probability_));
}

at::Tensor DropSamples::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  if (!is_on(call)) return inputs[0];
  call.saved = {draw_factors(call, inputs[0])};
  return at::mul(in_layout(inputs[0]), call.saved[0]);
}

std::vector<at::Tensor> DropSamples::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  if (!is_on(call)) return {output_gradient};
  return {at::mul(in_layout(output_gradient), call.saved.at(0))};
}

/// One factor per sample, or per channel of it; drawn as bytes.
LayerMemory DropSamples::memory(const CallShapes& call) const {
  if (probability_ == 0) return renamed_memory(call, 0);
  LayerMemory memory = plain_memory(call);
  int64_t factors = call.samples;
  for (int64_t dim = 1; dim <= dims_; ++dim) factors *= call.inputs[0].shape[size_t(dim)];
  memory.saved = factors * call.compute;
  return memory;
}

}  // namespace trireme
