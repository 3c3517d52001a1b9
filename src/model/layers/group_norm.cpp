#include "trireme/layers/group_norm.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <array>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

enum GroupNormSaved { kGroupNormInput, kGroupNormMean, kGroupNormInverseDeviation };

/// Sizes in the form that libtorch's kernels take.
struct Sizes {
  int64_t samples, channels, pixels, groups;
};

Sizes sizes_of(const at::Tensor& input, int64_t channels_per_group) {
  const int64_t n = input.size(0), c = input.size(1);
  return {n, c, n * c == 0 ? 0 : input.numel() / (n * c), c / channels_per_group};
}

}  // namespace

GroupNorm::GroupNorm(std::string name, int64_t channels, GroupNormOptions options)
    : Layer(std::move(name)), channels_(channels), options_(options) {
  if (options_.groups < 1 || channels % options_.groups != 0)
    fail_shape(*this, fmt::format("{} groups of {} channels", options_.groups, channels),
               "the groups must divide the channels", "choose another number of groups");
}

std::vector<ParameterSpec> GroupNorm::parameters() const {
  return {{name() + ".weight", {channels_}, Init::constant(1), /*full_precision=*/true},
          {name() + ".bias", {channels_}, Init::constant(0), /*full_precision=*/true}};
}

Shape GroupNorm::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  const Shape& in = inputs[0];
  if ((in.size() != 1 && in.size() != 3) || in[0] != channels_)
    fail_shape(*this, fmt::format("input sample shape {}", to_string(in)),
               fmt::format("it must be [{0}] or [{0}, height, width]", channels_), "change the layer's channels");
  return in;
}

std::vector<ShardingOption> GroupNorm::sharding_options(std::span<const Shape>, int degree) const {
  std::vector<ShardingOption> options{replicate_option(1, 2)};
  if (degree == 1 || options_.groups % degree != 0) return options;
  const std::vector<Placement> values{Placement::shard(1)}, parameters(2, Placement::shard(0));
  options.push_back({.name = "channels",
                     .inputs = values,
                     .output = values[0],
                     .input_gradients = values,
                     .parameters = parameters,
                     .parameter_gradients = parameters,
                     .divides_work = true});
  return options;
}

double GroupNorm::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0]));  // one multiply-add for the statistics, one to normalise
}

at::Tensor GroupNorm::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const at::Tensor& weight = call.parameter(0);
  at::Tensor input = inputs[0].contiguous();  // libtorch's kernels need contiguous channels
  if (input.numel() == 0) {
    call.saved = {input};
    return in_layout(input);
  }
  const Sizes s = sizes_of(input, channels_ / options_.groups);
  auto [output, mean, inverse] = at::native_group_norm(input.to(weight.scalar_type()), weight, call.parameter(1),
                                                       s.samples, s.channels, s.pixels, s.groups, options_.epsilon);
  call.saved = {input, mean, inverse};
  return in_layout(output.to(input.scalar_type()));
}

std::vector<at::Tensor> GroupNorm::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor& input = call.saved.at(kGroupNormInput);
  if (input.numel() == 0) {
    add_zero_gradients(call, 2);
    return {call.wants_input_gradient(0) ? at::empty_like(input) : at::Tensor()};
  }
  const at::Tensor& weight = call.parameter(0);
  const auto type = weight.scalar_type();
  const Sizes s = sizes_of(input, channels_ / options_.groups);
  const std::array<bool, 3> wanted{call.wants_input_gradient(0), call.wants_gradient(0), call.wants_gradient(1)};
  auto [gx, gw, gb] = at::native_group_norm_backward(
      output_gradient.to(type).contiguous(), input.to(type), call.saved.at(kGroupNormMean),
      call.saved.at(kGroupNormInverseDeviation), weight, s.samples, s.channels, s.pixels, s.groups, wanted);
  if (wanted[1]) call.add_gradient(0, gw);
  if (wanted[2]) call.add_gradient(1, gb);
  return {wanted[0] ? in_layout(gx.to(input.scalar_type())) : at::Tensor()};
}

/// libtorch's kernels need contiguous channels: images are copied before and after.
LayerMemory GroupNorm::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  const CallTensor& x = call.inputs[0];
  const bool images = x.shape.size() == 4;
  const int64_t local_groups = options_.groups / (call.option->inputs[0].is_shard() ? call.tensor : 1);
  const int64_t statistics = 2 * call.samples * local_groups * call.master, floats = x.count() * call.master;
  memory.saved = statistics;
  if (images) memory.saved += x.bytes();
  else memory.keeps_input[0] = true;
  const bool mixed = call.compute != call.master;
  const int64_t y = call.output.bytes();
  if (mixed) set_forward_peak(memory, {memory.saved + 2 * floats, memory.saved + floats + y + (images ? y : 0)});
  else if (images) memory.forward_workspace = y;
  // gradients in the kernels' order and dtype, sums per sample and channel and over samples; then the input's gradient
  // in its own order
  const int64_t channels = x.shape[1], sums = 2 * (call.samples + 1) * channels * call.master;
  const int64_t copies = mixed ? (images ? 3 : 2) : (images ? 1 : 0);
  set_backward_peak(memory, {copies * floats + floats + sums, floats + x.bytes() * (images || mixed ? 1 : 0)});
  return memory;
}

/// Each group is one channel of an instance norm, followed by the weight and bias of each channel.
std::string GroupNorm::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const int64_t groups = options_.groups, channels = w.shape()[0];
  const std::string grouped = w.add("Reshape", {w.in(), w.constant(List{0, groups, -1})});
  const std::string normal =
      w.add("InstanceNormalization", {grouped, w.constant(at::ones({groups})), w.constant(at::zeros({groups}))},
            {{"epsilon", options_.epsilon}});
  List sizes{-1}, of_weights{channels};
  sizes.insert(sizes.end(), w.shape().begin(), w.shape().end());
  of_weights.resize(w.shape().size(), 1);
  const auto weight = [&](size_t i) { return w.add("Reshape", {w.parameter(i), w.constant(of_weights)}); };
  return w.add("Add", {w.add("Mul", {w.add("Reshape", {normal, w.constant(sizes)}), weight(0)}), weight(1)});
}

void GroupNorm::to_script(ScriptWriter& w) const {
  w.result(script_call("group_norm", {w.in(), script_literal(options_.groups), w.parameter(0), w.parameter(1),
                                      script_literal(options_.epsilon)}));
}

}  // namespace trireme
