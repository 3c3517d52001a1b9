#include "trireme/layers/dropout.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/keep_mask.h"

namespace trireme {

Dropout::Dropout(std::string name, double probability) : Layer(std::move(name)), probability_(probability) {
  if (!(probability >= 0 && probability < 1))
    fail_shape(*this, fmt::format("probability {}", probability), "it must be at least 0 and below 1",
               "correct the option");
}

Shape Dropout::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  return inputs[0];
}

std::vector<ShardingOption> Dropout::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
}

double Dropout::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

namespace {

/// Returns the part of a sample that the local shard holds.
SamplePart local_part(const LayerCall& call, at::IntArrayRef sizes) {
  SamplePart part;
  part.local = Shape(sizes.begin() + 1, sizes.end());
  part.full = part.local;
  part.offset.assign(part.local.size(), 0);
  if (call.option && call.option->output.is_shard()) {
    auto dim = size_t(call.option->output.dim);
    part.full[dim - 1] *= call.tensor_degree;
    part.offset[dim - 1] = call.output_box.at(dim).begin;
  }
  return part;
}

}  // namespace

at::Tensor Dropout::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  if (!call.training || probability_ == 0) return inputs[0];
  at::Tensor input = in_layout(inputs[0]);
  at::Tensor mask = in_layout(
      draw_keep_mask(call, *this, probability_, input.size(0), local_part(call, input.sizes()), input.device()));
  call.saved = {mask};
  return at::mul(input, mask).mul_(1 / (1 - probability_));
}

std::vector<at::Tensor> Dropout::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  if (!call.training || probability_ == 0) return {output_gradient};
  return {at::mul(in_layout(output_gradient), call.saved.at(0)).mul_(1 / (1 - probability_))};
}

/// A mask of bytes, created in the order of samples and then converted to the layout of images.
LayerMemory Dropout::memory(const CallShapes& call) const {
  if (probability_ == 0) return renamed_memory(call, 0);
  LayerMemory memory = plain_memory(call);
  memory.saved = call.inputs[0].count();
  memory.forward_workspace = memory.backward_workspace = call.inputs[0].bytes();  // the mask in the input's type
  return memory;
}

std::string Dropout::to_onnx(OnnxWriter& w) const { return w.in(); }

void Dropout::to_script(ScriptWriter& w) const {
  w.result(script_call("dropout", {w.in(), script_literal(probability_), "self.training"}));
}

}  // namespace trireme
