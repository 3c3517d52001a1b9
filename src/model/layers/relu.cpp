#include "trireme/layers/relu.h"

#include <ATen/ATen.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape Relu::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  return inputs[0];
}

std::vector<ShardingOption> Relu::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
}

double Relu::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor Relu::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor output = at::relu(inputs[0]);
  call.saved = {output};
  return output;
}

std::vector<at::Tensor> Relu::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  return {at::threshold_backward(output_gradient, call.saved.at(0), 0)};
}

LayerMemory Relu::memory(const CallShapes& call) const { return keeping_output(call); }

std::string Relu::to_onnx(OnnxWriter& w) const { return w.add("Relu", w.inputs()); }

void Relu::to_script(ScriptWriter& w) const { w.result(script_call("relu", {w.in()})); }

}  // namespace trireme
