#include "trireme/layers/softmax.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape Softmax::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const int dim = dim_of(inputs[0].size());
  if (dim < 1 || dim > int(inputs[0].size()))
    fail_shape(*this, fmt::format("dim {} of input sample shape {}", dim_, to_string(inputs[0])),
               fmt::format("dims count from 1 to {}, or from -1 backwards", inputs[0].size()), "choose one of these");
  return inputs[0];
}

std::vector<ShardingOption> Softmax::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, int(inputs[0].size()));
  const int dim = dim_of(inputs[0].size());
  std::erase_if(options,
                [&](const ShardingOption& option) { return option.output.is_shard() && option.output.dim == dim; });
  return options;
}

double Softmax::forward_flops(std::span<const Shape> inputs) const { return 4.0 * double(element_count(inputs[0])); }

at::Tensor Softmax::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  at::Tensor output = in_layout(at::_softmax(inputs[0], dim_of(size_t(inputs[0].dim()) - 1), /*half_to_float=*/false));
  call.saved = {output};
  return output;
}

std::vector<at::Tensor> Softmax::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  // not at::_softmax_backward_data, which is wrong for channels_last tensors (libtorch 1.13)
  const at::Tensor &output = call.saved.at(0), weighted = at::mul(output_gradient, output);
  const at::Tensor sum = weighted.sum(dim_of(size_t(output.dim()) - 1), /*keepdim=*/true);
  return {in_layout(at::sub(weighted, at::mul(output, sum)))};
}

LayerMemory Softmax::memory(const CallShapes& call) const {
  LayerMemory memory = keeping_output(call);
  if (call.output.shape.size() == 4)
    memory.forward_workspace = call.output.bytes();  // ATen returns images in another memory order
  memory.backward_workspace = 2 * call.output.bytes();
  return memory;
}

std::string Softmax::to_onnx(OnnxWriter& w) const { return w.add("Softmax", w.inputs(), {{"axis", int64_t{dim_}}}); }

void Softmax::to_script(ScriptWriter& w) const {
  w.result(script_call("softmax", {w.in(), script_literal(int64_t{dim_})}));
}

}  // namespace trireme
