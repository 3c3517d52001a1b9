#include "trireme/layers/masked_mean_sequence.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "trireme/layer.h"

namespace trireme {

Shape MaskedMeanSequence::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 2);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  if (inputs[1] != Shape{inputs[0][0]})
    fail_shape(*this, fmt::format("token sample shape {} for values {}", to_string(inputs[1]), to_string(inputs[0])),
               "there must be one token per position", "give it the tokens that the values came from");
  return {inputs[0][1]};
}

std::vector<ShardingOption> MaskedMeanSequence::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(2)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), sequence = Placement::shard(1), features = Placement::shard(2);
  if (inputs[0][1] % degree == 0)
    options.push_back({.name = "features",
                       .inputs = {features, whole},
                       .output = Placement::shard(1),
                       .input_gradients = {features, whole},
                       .divides_work = true});
  if (inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence",
                       .inputs = {sequence, whole},
                       .output = Placement::partial(),
                       .input_gradients = {sequence, whole},
                       .divides_work = true});
  return options;
}

double MaskedMeanSequence::forward_flops(std::span<const Shape> inputs) const {
  return 2.0 * double(element_count(inputs[0]));
}

at::Tensor MaskedMeanSequence::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor &values = inputs[0], &tokens = inputs[1];
  const auto type = values.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor weights = tokens.ne(kPadding).to(type);
  weights.div_(weights.sum(1, /*keepdim=*/true).clamp_min_(1));
  const int64_t local = values.size(1);
  if (local != weights.size(1)) weights = weights.narrow(1, local * call.tensor_index, local);
  weights = weights.to(values.scalar_type());
  call.saved = {weights};
  return at::matmul(weights.unsqueeze(1), values).squeeze(1);
}

std::vector<at::Tensor> MaskedMeanSequence::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor(), at::Tensor()};
  return {at::mul(call.saved.at(0).unsqueeze(2), output_gradient.unsqueeze(1)), at::Tensor()};
}

/// The weights of a sample's positions are retained.
LayerMemory MaskedMeanSequence::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  const int64_t positions = call.inputs[1].count(), own = call.samples * call.inputs[0].shape[1];
  const bool is_view = call.compute == call.master;  // a view of the weights of all positions
  memory.saved = is_view ? positions * call.master : own * call.compute;
  set_forward_peak(memory, {positions * (1 + call.master), positions * call.master + call.samples * call.master,
                            memory.saved + memory.output});
  return memory;
}

/// Weights of the average: 1 / number of tokens that are not padding; 0 for padding.
std::string MaskedMeanSequence::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const std::string real = w.add("Cast", {w.add("Not", {w.add("Equal", {w.in(1), w.constant(int64_t{kPadding})})})},
                                 {{"to", OnnxWriter::kFloat}});
  const std::string count = w.add("Max", {w.add("ReduceSum", {real, w.constant(List{1})}), w.constant(1.0)});
  const std::string weights = w.add("Unsqueeze", {w.add("Div", {real, count}), w.constant(List{1})});
  return w.add("Squeeze", {w.add("MatMul", {weights, w.in()}), w.constant(List{1})});
}

void MaskedMeanSequence::to_script(ScriptWriter& w) const {
  const std::string weights = w.own("weights");
  w.set(weights, fmt::format("torch.ne({}, {}).type_as({})", w.in(1), kPadding, w.in()));
  w.set(weights, fmt::format("torch.div({0}, torch.clamp_min(torch.sum({0}, [1], True), 1))", weights));
  w.result(fmt::format("torch.squeeze(torch.matmul(torch.unsqueeze({}, 1), {}), 1)", weights, w.in()));
}

}  // namespace trireme
