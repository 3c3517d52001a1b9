#include "trireme/layers/flatten.h"

#include <ATen/ATen.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape Flatten::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  return {element_count(inputs[0])};
}

std::vector<ShardingOption> Flatten::sharding_options(std::span<const Shape> inputs, int degree) const {
  // channels are the slowest dim of a sample, so a share of them is a contiguous share of the flat features
  return elementwise_options(1, inputs[0], degree, 1);
}

double Flatten::forward_flops(std::span<const Shape>) const { return 0; }

at::Tensor Flatten::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& input = inputs[0];
  call.saved = {saved_shape(input)};
  Shape shape = input.sizes().vec();
  int64_t features = element_count(Shape(shape.begin() + 1, shape.end()));
  return input.contiguous().view({input.size(0), features});
}

std::vector<at::Tensor> Flatten::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  return {in_layout(output_gradient.contiguous().view(restore_shape(call.saved.at(0))))};
}

LayerMemory Flatten::memory(const CallShapes& call) const {
  const Shape& in = call.inputs[0].shape;
  const bool same_order = in.size() != 4 || in[1] == 1 || in[2] * in[3] == 1;
  if (same_order) return renamed_memory(call, shape_bytes(call.inputs[0]));
  LayerMemory memory = plain_memory(call);
  memory.saved = shape_bytes(call.inputs[0]);
  return memory;
}

/// The output is a view of the input: no work.
std::vector<OperatorWork> Flatten::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 0, false);
}

std::string Flatten::to_onnx(OnnxWriter& w) const { return w.add("Flatten", w.inputs(), {{"axis", int64_t{1}}}); }

void Flatten::to_script(ScriptWriter& w) const { w.result(script_call("flatten", {w.in(), "1"})); }

}  // namespace trireme
