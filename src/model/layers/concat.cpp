#include "trireme/layers/concat.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape Concat::output_shape(std::span<const Shape> inputs) const {
  if (inputs.empty()) fail_shape(*this, "got no inputs", "it takes at least 1", "connect the branches that it joins");
  const auto axis = size_t(dim_ - 1);
  Shape shape = inputs[0];
  if (dim_ < 1 || axis >= shape.size())
    fail_shape(*this, fmt::format("dim {} of input sample shape {}", dim_, to_string(shape)),
               fmt::format("dims count from 1 to {}", shape.size()), "choose one of these");
  for (const Shape& input : inputs.subspan(1)) {
    Shape same = input;
    if (same.size() == shape.size()) same[axis] = shape[axis];
    if (same != shape)
      fail_shape(*this, fmt::format("input sample shapes {} and {}", to_string(inputs[0]), to_string(input)),
                 fmt::format("they may differ only in dim {}", dim_),
                 "give all branches the same strides and paddings");
    shape[axis] += input[axis];
  }
  return shape;
}

std::vector<ShardingOption> Concat::sharding_options(std::span<const Shape> inputs, int degree) const {
  const Shape output = output_shape(inputs);
  std::vector<ShardingOption> options = elementwise_options(int(inputs.size()), output, degree, int(output.size()));
  std::erase_if(options,
                [&](const ShardingOption& option) { return option.output.is_shard() && option.output.dim == dim_; });
  return options;
}

at::Tensor Concat::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  Shape shape = inputs[0].sizes().vec();
  at::Tensor sizes = at::empty({int64_t(inputs.size())}, at::TensorOptions().dtype(at::kLong));
  shape[size_t(dim_)] = 0;
  for (size_t i = 0; i < inputs.size(); ++i) shape[size_t(dim_)] += sizes.data_ptr<int64_t>()[i] = inputs[i].size(dim_);
  call.saved = {sizes};
  at::Tensor output = empty_in_layout(shape, inputs[0].options());
  if (!on_host(output)) return at::cat_out(output, at::TensorList(inputs.data(), inputs.size()), dim_);
  int64_t begin = 0;
  for (const at::Tensor& input : inputs) {
    output.narrow(dim_, begin, input.size(dim_)).copy_(input);
    begin += input.size(dim_);
  }
  return output;
}

std::vector<at::Tensor> Concat::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& sizes = call.saved.at(0);
  std::vector<at::Tensor> gradients;
  int64_t begin = 0;
  for (int i = 0; i < int(sizes.numel()); ++i) {
    const int64_t size = sizes.data_ptr<int64_t>()[i];
    gradients.push_back(call.wants_input_gradient(i) ? output_gradient.narrow(dim_, begin, size) : at::Tensor());
    begin += size;
  }
  return gradients;
}

LayerMemory Concat::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.saved = 8 * int64_t(call.inputs.size());
  memory.input_gradients.assign(call.inputs.size(), 0);  // views
  return memory;
}

std::string Concat::to_onnx(OnnxWriter& w) const { return w.add("Concat", w.inputs(), {{"axis", int64_t{dim_}}}); }

void Concat::to_script(ScriptWriter& w) const {
  w.result(fmt::format("torch.cat([{}], {})", fmt::join(w.inputs(), ", "), dim_));
}

}  // namespace trireme
