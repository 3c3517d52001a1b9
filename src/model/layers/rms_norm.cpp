#include "trireme/layers/rms_norm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

enum RmsNormSaved { kRmsNormInput, kRmsNormInverse };

/// Sums over all dims but the last.
at::Tensor sum_of_rows(const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}).sum(0); }

}  // namespace

std::vector<ParameterSpec> RmsNorm::parameters() const {
  return {{name() + ".weight", {width_}, Init::constant(1), /*full_precision=*/true}};
}

Shape RmsNorm::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_last_dim(*this, inputs[0], width_);
  return inputs[0];
}

std::vector<ShardingOption> RmsNorm::sharding_options(std::span<const Shape> inputs, int degree) const {
  return norm_options(inputs[0], degree, 1);
}

double RmsNorm::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // one multiply-add for the mean, two products to normalise
}

at::Tensor RmsNorm::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor &input = inputs[0], &weight = call.parameter(0);
  at::Tensor inverse = at::linalg_vector_norm(input, 2, {-1}, /*keepdim=*/true, weight.scalar_type());
  inverse.square_().div_(double(width_)).add_(options_.epsilon).rsqrt_();
  call.saved = {input, inverse};
  return at::mul(input, inverse).mul_(weight).to(input.scalar_type());
}

/// With u = x * inverse and the gradient h = g * weight of u: that of x is inverse * (h - u * mean(h * u)).
std::vector<at::Tensor> RmsNorm::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor &input = call.saved.at(kRmsNormInput), &inverse = call.saved.at(kRmsNormInverse);
  const at::Tensor& weight = call.parameter(0);
  at::Tensor normalised = at::mul(input, inverse);
  if (call.wants_gradient(0)) call.add_gradient(0, sum_of_rows(at::mul(normalised, output_gradient)));
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient = at::mul(output_gradient, weight);
  const at::Tensor mean = at::mul(gradient, normalised).mean({-1}, /*keepdim=*/true);
  gradient.sub_(normalised.mul_(mean)).mul_(inverse);
  return {gradient.to(input.scalar_type())};
}

LayerMemory RmsNorm::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  const CallTensor& x = call.inputs[0];
  const int64_t floats = x.count() * call.master;
  memory.saved = x.count() / x.shape.back() * call.master;
  // libtorch converts the input to float for the product
  if (call.compute != call.master) set_forward_peak(memory, {memory.saved + 2 * floats});
  // the normalised values, the gradient in float, and their product; then the result in the compute dtype
  set_backward_peak(memory, {3 * floats, 2 * floats + (call.compute == call.master ? 0 : x.bytes())});
  return memory;
}

/// Composed of operators that every version has: RMSNormalization came with operator set 23.
std::string RmsNorm::to_onnx(OnnxWriter& w) const {
  const std::string squares =
      w.add("ReduceMean", {w.add("Mul", {w.in(), w.in()})}, {{"axes", OnnxWriter::List{-1}}, {"keepdims", int64_t{1}}});
  const std::string root = w.add("Sqrt", {w.add("Add", {squares, w.constant(options_.epsilon)})});
  return w.add("Mul", {w.add("Div", {w.in(), root}), w.parameter(0)});
}

void RmsNorm::to_script(ScriptWriter& w) const {
  w.result(fmt::format(
      "torch.mul(torch.mul({0}, torch.rsqrt(torch.add(torch.mean(torch.mul({0}, {0}), [-1], True), {1}))), {2})",
      w.in(), script_literal(options_.epsilon), w.parameter(0)));
}

}  // namespace trireme
