#include "trireme/layers/mean_sequence.h"

#include <ATen/ATen.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

/// Returns 1 / number of positions of the whole sequence, of which this worker has `local`.
double weight_of(const LayerCall& call, int64_t local) {
  const bool by_sequence = call.option && call.option->output.is_partial();
  return 1 / double(local * (by_sequence ? call.tensor_degree : 1));
}

}  // namespace

Shape MeanSequence::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  return {inputs[0][1]};
}

std::vector<ShardingOption> MeanSequence::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1)};
  if (degree == 1) return options;
  const Placement sequence = Placement::shard(1), features = Placement::shard(2);
  if (inputs[0][1] % degree == 0)
    options.push_back({.name = "features",
                       .inputs = {features},
                       .output = Placement::shard(1),
                       .input_gradients = {features},
                       .divides_work = true});
  if (inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence",
                       .inputs = {sequence},
                       .output = Placement::partial(),
                       .input_gradients = {sequence},
                       .divides_work = true});
  return options;
}

double MeanSequence::forward_flops(std::span<const Shape> inputs) const { return double(element_count(inputs[0])); }

at::Tensor MeanSequence::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  call.saved = {saved_shape(inputs[0])};
  return inputs[0].sum(1).mul_(weight_of(call, inputs[0].size(1)));
}

std::vector<at::Tensor> MeanSequence::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  const Shape shape = restore_shape(call.saved.at(0));
  return {at::mul(output_gradient, weight_of(call, shape[1])).unsqueeze(1).expand(shape).contiguous()};
}

LayerMemory MeanSequence::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.saved = shape_bytes(call.inputs[0]);
  memory.backward_workspace = call.output.bytes();
  return memory;
}

std::string MeanSequence::to_onnx(OnnxWriter& w) const {
  return w.add("ReduceMean", w.inputs(), {{"axes", OnnxWriter::List{1}}, {"keepdims", int64_t{0}}});
}

void MeanSequence::to_script(ScriptWriter& w) const { w.result(script_call("mean", {w.in(), "[1]"})); }

}  // namespace trireme
