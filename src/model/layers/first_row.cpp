#include "trireme/layers/first_row.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

std::vector<ParameterSpec> FirstRow::parameters() const {
  return {{name() + ".weight", {rows_, width_}, Init::normal(0, deviation_)}};
}

Shape FirstRow::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  if (inputs[0][1] != width_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("it must have {} features", width_), "change the layer's width");
  return inputs[0];
}

std::vector<ShardingOption> FirstRow::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, 1)};
  if (degree > 1 && inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence",
                       .inputs = {Placement::shard(1)},
                       .output = Placement::shard(1),
                       .input_gradients = {Placement::shard(1)},
                       .parameters = {Placement::replicate()},
                       .parameter_gradients = {Placement::partial()},
                       .divides_work = true});
  return options;
}

at::Tensor FirstRow::compute(LayerCall&, std::span<const at::Tensor> inputs,
                             std::span<const at::Tensor> parameters) const {
  return inputs[0] + parameters[0].select(0, 0);
}

/// Through autograd; the call retains its input. The row's gradient has the size of the whole table.
LayerMemory FirstRow::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_input(call);
  memory.input_gradients = {0};
  const int64_t row = call.output.shape.back() * call.compute;
  memory.backward_workspace = call.parameters[0].bytes() + 2 * row;
  return memory;
}

std::string FirstRow::to_onnx(OnnxWriter& w) const {
  return w.add("Add", {w.in(), w.add("Gather", {w.parameter(0), w.constant(int64_t{0})})});
}

void FirstRow::to_script(ScriptWriter& w) const {
  w.result(fmt::format("torch.add({}, torch.select({}, 0, 0))", w.in(), w.parameter(0)));
}

}  // namespace trireme
