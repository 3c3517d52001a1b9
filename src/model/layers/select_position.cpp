#include "trireme/layers/select_position.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape SelectPosition::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  const int64_t positions = inputs[0][0];
  if (index_ >= positions || index_ < -positions)
    fail_shape(*this, fmt::format("position {} of input sample shape {}", index_, to_string(inputs[0])),
               fmt::format("positions are 0 to {}, or -1 to {} from the end", positions - 1, -positions),
               "choose one of these");
  return {inputs[0][1]};
}

std::vector<ShardingOption> SelectPosition::sharding_options(std::span<const Shape> inputs, int degree) const {
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
    options.push_back(
        {.name = "sequence", .inputs = {sequence}, .output = Placement::partial(), .input_gradients = {sequence}});
  return options;
}

int64_t SelectPosition::own_index(const LayerCall& call, int64_t local) const {
  const bool by_sequence = call.option && call.option->output.is_partial();
  const int64_t positions = by_sequence ? local * call.tensor_degree : local,
                first = by_sequence ? local * call.tensor_index : 0;
  return (index_ < 0 ? positions + index_ : index_) - first;
}

at::Tensor SelectPosition::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& input = inputs[0];
  call.saved = {saved_shape(input)};
  const int64_t own = own_index(call, input.size(1));
  if (own < 0 || own >= input.size(1)) return at::zeros({input.size(0), input.size(2)}, input.options());
  return input.select(1, own).clone(at::MemoryFormat::Contiguous);  // a view would retain the whole sequence
}

std::vector<at::Tensor> SelectPosition::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  at::Tensor gradient = at::zeros(restore_shape(call.saved.at(0)), output_gradient.options());
  const int64_t own = own_index(call, gradient.size(1));
  if (own >= 0 && own < gradient.size(1)) gradient.select(1, own).copy_(output_gradient);
  return {gradient};
}

LayerMemory SelectPosition::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.saved = shape_bytes(call.inputs[0]);
  return memory;
}

std::string SelectPosition::to_onnx(OnnxWriter& w) const {
  return w.add("Gather", {w.in(), w.constant(index_)}, {{"axis", int64_t{1}}});
}

void SelectPosition::to_script(ScriptWriter& w) const {
  w.result(script_call("select", {w.in(), "1", script_literal(index_)}));
}

}  // namespace trireme
