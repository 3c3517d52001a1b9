#include "trireme/layers/class_token.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {

Shape ClassToken::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  if (inputs[0][1] != width_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               fmt::format("its last dim must be the {} features of the token", width_), "change the layer's width");
  return {inputs[0][0] + 1, width_};
}

std::vector<ShardingOption> ClassToken::sharding_options(std::span<const Shape>, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, 1)};
  if (degree == 1 || width_ % degree != 0) return options;
  const std::vector<Placement> features{Placement::shard(2)};
  options.push_back({.name = "features",
                     .inputs = features,
                     .output = features[0],
                     .input_gradients = features,
                     .parameters = features,
                     .parameter_gradients = features,
                     .divides_work = true});
  return options;
}

at::Tensor ClassToken::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor &input = inputs[0], &token = call.parameter(0);
  return at::cat({token.to(input.scalar_type()).expand({input.size(0), 1, input.size(2)}), input}, 1);
}

std::vector<at::Tensor> ClassToken::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  if (call.wants_gradient(0)) call.add_gradient(0, output_gradient.narrow(1, 0, 1).sum(0, /*keepdim=*/true));
  if (!call.wants_input_gradient(0)) return {at::Tensor()};
  return {output_gradient.narrow(1, 1, output_gradient.size(1) - 1).contiguous()};
}

LayerMemory ClassToken::memory(const CallShapes& call) const { return plain_memory(call); }

std::string ClassToken::to_onnx(OnnxWriter& w) const {
  const std::string samples = w.add("Shape", {w.in()}, {{"start", int64_t{0}}, {"end", int64_t{1}}});
  const std::string sizes = w.add("Concat", {samples, w.constant(OnnxWriter::List{1, width_})}, {{"axis", int64_t{0}}});
  return w.add("Concat", {w.add("Expand", {w.parameter(0), sizes}), w.in()}, {{"axis", int64_t{1}}});
}

void ClassToken::to_script(ScriptWriter& w) const {
  w.result(fmt::format("torch.cat([{}.expand([{}.size(0), -1, -1]), {}], 1)", w.parameter(0), w.in(), w.in()));
}

}  // namespace trireme
