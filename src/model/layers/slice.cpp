#include "trireme/layers/slice.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape Slice::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  Shape shape = inputs[0];
  if (options_.dim < 1 || options_.dim > int(shape.size()))
    fail_shape(*this, fmt::format("dim {} of input sample shape {}", options_.dim, to_string(shape)),
               fmt::format("dims count from 1 to {}", shape.size()), "choose one of these");
  int64_t& extent = shape[size_t(options_.dim - 1)];
  if (options_.begin < 0 || options_.end <= options_.begin || options_.end > extent)
    fail_shape(*this,
               fmt::format("range {} to {} of dim {} of input sample shape {}", options_.begin, options_.end,
                           options_.dim, to_string(inputs[0])),
               fmt::format("it must lie within 0 to {} and must not be empty", extent), "correct the range");
  extent = options_.end - options_.begin;
  return shape;
}

std::vector<ShardingOption> Slice::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
  std::erase_if(options, [&](const ShardingOption& option) {
    return option.output.is_shard() && option.output.dim == options_.dim;
  });
  return options;
}

at::Tensor Slice::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  call.saved = {saved_shape(inputs[0])};
  return in_layout(inputs[0].narrow(options_.dim, options_.begin, options_.end - options_.begin));
}

std::vector<at::Tensor> Slice::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  const Shape shape = restore_shape(call.saved.at(0));
  at::Tensor gradient = empty_in_layout(shape, output_gradient.options()).zero_();
  gradient.narrow(options_.dim, options_.begin, options_.end - options_.begin).copy_(output_gradient);
  return {gradient};
}

LayerMemory Slice::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.saved = shape_bytes(call.inputs[0]);
  return memory;
}

std::string Slice::to_onnx(OnnxWriter& w) const {
  const OnnxWriter::List begin{options_.begin}, end{options_.end}, dim{options_.dim};
  return w.add("Slice", {w.in(), w.constant(begin), w.constant(end), w.constant(dim)});
}

void Slice::to_script(ScriptWriter& w) const {
  w.result(fmt::format("torch.slice({}, {}, {}, {}, 1)", w.in(), options_.dim, options_.begin, options_.end));
}

}  // namespace trireme
