#include "trireme/layers/image_tokens.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape ImageTokens::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 3, "[channels, height, width]");
  return {inputs[0][1] * inputs[0][2], inputs[0][0]};
}

std::vector<ShardingOption> ImageTokens::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1)};
  if (degree == 1) return options;
  const Placement channels = Placement::shard(1), height = Placement::shard(2);
  if (inputs[0][0] % degree == 0)
    options.push_back({.name = "channels",
                       .inputs = {channels},
                       .output = Placement::shard(2),
                       .input_gradients = {channels},
                       .divides_work = true});
  if (inputs[0][1] % degree == 0)
    options.push_back({.name = "height",
                       .inputs = {height},
                       .output = Placement::shard(1),
                       .input_gradients = {height},
                       .divides_work = true});
  return options;
}

at::Tensor ImageTokens::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  call.saved = {saved_shape(inputs[0])};
  const at::Tensor& image = inputs[0];
  return image.permute({0, 2, 3, 1}).reshape({image.size(0), image.size(2) * image.size(3), image.size(1)});
}

std::vector<at::Tensor> ImageTokens::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  const Shape shape = restore_shape(call.saved.at(0));
  return {in_layout(output_gradient.reshape({shape[0], shape[2], shape[3], shape[1]}).permute({0, 3, 1, 2}))};
}

LayerMemory ImageTokens::memory(const CallShapes& call) const {
  return renamed_memory(call, shape_bytes(call.inputs[0]));
}

/// The output is a view of the input: no work.
std::vector<OperatorWork> ImageTokens::work(const CallShapes& call, double flops, Pass) const {
  return one_pass(call, flops, 0, false);
}

std::string ImageTokens::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  return w.add("Transpose", {w.add("Reshape", {w.in(), w.constant(List{0, 0, -1})})}, {{"perm", List{0, 2, 1}}});
}

void ImageTokens::to_script(ScriptWriter& w) const {
  w.result(fmt::format("torch.transpose(torch.flatten({}, 2), 1, 2)", w.in()));
}

}  // namespace trireme
