#include "trireme/layers/global_avg_pool.h"

#include <ATen/ATen.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/halo.h"

namespace trireme {
namespace {

/// The number of workers over which an image's rows are divided.
int64_t shares(const LayerCall& call) { return is_split_by_height(call) ? call.tensor_degree : 1; }

}  // namespace

Shape GlobalAvgPool::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 3, "[channels, height, width]");
  return {inputs[0][0]};
}

std::vector<ShardingOption> GlobalAvgPool::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 1);
  if (degree > 1 && inputs[0][1] % degree == 0)
    options.push_back(height_option(1, Placement::partial(), 0, 0, /*communicates=*/false));
  return options;
}

double GlobalAvgPool::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor GlobalAvgPool::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& input = inputs[0];
  call.saved = {saved_shape(input)};
  if (input.size(0) == 0) return at::empty({0, input.size(1)}, input.options());
  at::Tensor mean = at::mean(input, {2, 3});
  return shares(call) == 1 ? mean : mean.div_(double(shares(call)));
}

std::vector<at::Tensor> GlobalAvgPool::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  Shape shape = restore_shape(call.saved.at(0));
  at::Tensor gradient = empty_in_layout(shape, output_gradient.options());
  at::Tensor share = output_gradient / double(shape[2] * shares(call) * shape[3]);
  gradient.copy_(share.unsqueeze(2).unsqueeze(3).expand(shape));
  return {gradient};
}

LayerMemory GlobalAvgPool::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.saved = shape_bytes(call.inputs[0]);
  memory.backward_workspace = call.output.bytes();
  return memory;
}

std::string GlobalAvgPool::to_onnx(OnnxWriter& w) const {
  return w.add("ReduceMean", w.inputs(), {{"axes", OnnxWriter::List{2, 3}}, {"keepdims", int64_t{0}}});
}

void GlobalAvgPool::to_script(ScriptWriter& w) const { w.result(script_call("mean", {w.in(), "[2, 3]"})); }

}  // namespace trireme
