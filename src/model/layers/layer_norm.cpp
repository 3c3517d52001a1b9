#include "trireme/layers/layer_norm.h"

#include <ATen/ATen.h>

#include <array>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

enum LayerNormSaved { kLayerNormInput, kLayerNormMean, kLayerNormInverseDeviation };

}  // namespace

std::vector<ParameterSpec> LayerNorm::parameters() const {
  return {{name() + ".weight", {width_}, Init::constant(1), /*full_precision=*/true},
          {name() + ".bias", {width_}, Init::constant(0), /*full_precision=*/true}};
}

Shape LayerNorm::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_last_dim(*this, inputs[0], width_);
  return inputs[0];
}

std::vector<ShardingOption> LayerNorm::sharding_options(std::span<const Shape> inputs, int degree) const {
  return norm_options(inputs[0], degree, 2);
}

double LayerNorm::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // one multiply-add for the statistics, one to normalise
}

at::Tensor LayerNorm::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor input = inputs[0].contiguous();
  const at::Tensor &weight = call.parameter(0), &bias = call.parameter(1);
  auto [output, mean, inverse] =
      at::native_layer_norm(input.to(weight.scalar_type()), {width_}, weight, bias, options_.epsilon);
  call.saved = {input, mean, inverse};
  return output.to(input.scalar_type());
}

std::vector<at::Tensor> LayerNorm::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved.at(kLayerNormInput);
  if (input.numel() == 0) {
    add_zero_gradients(call, 2);
    return {call.wants_input_gradient(0) ? at::empty_like(input) : at::Tensor()};
  }
  const at::Tensor &weight = call.parameter(0), &bias = call.parameter(1);
  const auto type = weight.scalar_type();
  const std::array<bool, 3> wanted{call.wants_input_gradient(0), call.wants_gradient(0), call.wants_gradient(1)};
  auto [gx, gw, gb] = at::native_layer_norm_backward(output_gradient.to(type).contiguous(), input.to(type), {width_},
                                                     call.saved.at(kLayerNormMean),
                                                     call.saved.at(kLayerNormInverseDeviation), weight, bias, wanted);
  if (wanted[1]) call.add_gradient(0, gw);
  if (wanted[2]) call.add_gradient(1, gb);
  return {wanted[0] ? gx.to(input.scalar_type()) : at::Tensor()};
}

LayerMemory LayerNorm::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  const CallTensor& x = call.inputs[0];
  const int64_t rows = x.count() / x.shape.back(), floats = x.count() * call.master;
  memory.saved = 2 * rows * call.master;
  const int64_t sums = 4 * x.shape.back() * call.master;
  memory.backward_workspace = sums;
  if (call.compute == call.master) return memory;
  set_forward_peak(memory, {memory.saved + 2 * floats, memory.saved + floats + memory.output});
  set_backward_peak(memory, {3 * floats + sums, floats + x.bytes() + sums});
  return memory;
}

std::string LayerNorm::to_onnx(OnnxWriter& w) const {
  return w.add("LayerNormalization", {w.in(), w.parameter(0), w.parameter(1)},
               {{"axis", int64_t{-1}}, {"epsilon", options_.epsilon}});
}

void LayerNorm::to_script(ScriptWriter& w) const {
  w.result(script_call("layer_norm", {w.in(), script_literal(OnnxWriter::List{width_}), w.parameter(0), w.parameter(1),
                                      script_literal(options_.epsilon)}));
}

}  // namespace trireme
