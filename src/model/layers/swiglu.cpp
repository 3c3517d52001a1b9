#include "trireme/layers/swiglu.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

enum SwiGluInput { kSwiGluGate, kSwiGluValue };

}  // namespace

Shape SwiGlu::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  if (inputs[0] != inputs[1])
    fail_shape(*this,
               fmt::format("sample shapes {} and {} of gate and value", to_string(inputs[0]), to_string(inputs[1])),
               "both must be equal", "project both to one width");
  return inputs[0];
}

std::vector<ShardingOption> SwiGlu::sharding_options(std::span<const Shape> inputs, int degree) const {
  return elementwise_options(2, inputs[0], degree, int(inputs[0].size()));
}

/// As an activation's (8 per element), and the product.
double SwiGlu::forward_flops(std::span<const Shape> inputs) const { return 9.0 * double(element_count(inputs[0])); }

at::Tensor SwiGlu::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  call.saved = {inputs[kSwiGluGate], inputs[kSwiGluValue]};
  return at::silu(inputs[kSwiGluGate]).mul_(inputs[kSwiGluValue]);
}

/// silu(gate) is computed again, so that only the two inputs are kept.
std::vector<at::Tensor> SwiGlu::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor &gate = call.saved.at(kSwiGluGate), &value = call.saved.at(kSwiGluValue);
  std::vector<at::Tensor> gradients(2);
  if (call.wants_input_gradient(kSwiGluValue)) gradients[kSwiGluValue] = at::silu(gate).mul_(output_gradient);
  if (call.wants_input_gradient(kSwiGluGate))
    gradients[kSwiGluGate] = at::silu_backward(at::mul(output_gradient, value), gate);
  return gradients;
}

LayerMemory SwiGlu::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.keeps_input = {true, true};
  memory.backward_workspace = call.wanted[kSwiGluGate] ? call.output.bytes() : 0;
  return memory;
}

std::string SwiGlu::to_onnx(OnnxWriter& w) const {
  return w.add("Mul", {w.add("Mul", {w.in(0), w.add("Sigmoid", {w.in(0)})}), w.in(1)});
}

void SwiGlu::to_script(ScriptWriter& w) const {
  w.result(script_call("mul", {script_call("silu", {w.in(0)}), w.in(1)}));
}

}  // namespace trireme
