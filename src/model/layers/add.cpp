#include "trireme/layers/add.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape Add::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  if (inputs[0] != inputs[1])
    fail_shape(*this, fmt::format("input sample shapes {} and {}", to_string(inputs[0]), to_string(inputs[1])),
               "both must be equal", "project one of them to the other's shape first");
  return inputs[0];
}

std::vector<ShardingOption> Add::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(2, inputs[0], degree, int(inputs[0].size()));
}

double Add::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor Add::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor output = at::add(inputs[0], inputs[1]);
  if (relu_) {
    output.relu_();
    call.saved = {output};
  }
  return output;
}

std::vector<at::Tensor> Add::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  at::Tensor gradient = relu_ ? at::threshold_backward(output_gradient, call.saved.at(0), 0) : output_gradient;
  return {call.wants_input_gradient(0) ? gradient : at::Tensor(),
          call.wants_input_gradient(1) ? gradient : at::Tensor()};
}

/// Both inputs have the output's gradient; with a ReLU both share one new tensor.
LayerMemory Add::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.keeps_output = relu_;
  if (!relu_) memory.input_gradients = {0, 0};
  else if (call.wanted[0] && call.wanted[1]) memory.input_gradients[1] = 0;
  return memory;
}

std::string Add::to_onnx(OnnxWriter& w) const {
  const std::string sum = w.add("Add", w.inputs());
  return relu_ ? w.add("Relu", {sum}) : sum;
}

void Add::to_script(ScriptWriter& w) const {
  const std::string sum = script_call("add", {w.in(0), w.in(1)});
  w.result(relu_ ? script_call("relu", {sum}) : sum);
}

}  // namespace trireme
