#include "trireme/layers/rotary_embedding.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"

namespace trireme {
namespace {

constexpr double kTurn = 2 * M_PI;

/// The heads that a worker has.
int64_t local_heads(int64_t heads, const ShardingOption* option, int degree) {
  return option && option->output == Placement::shard(2) ? heads / degree : heads;
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(std::string name, RotaryEmbeddingOptions options)
    : Layer(std::move(name)), options_(options) {
  if (options_.heads < 1)
    fail_shape(*this, fmt::format("{} heads", options_.heads), "it needs at least 1", "correct the option");
  if (!(options_.base > 0 && options_.factor > 0 && options_.low > 0 && options_.high > options_.low &&
        options_.original_positions > 0))
    fail_shape(
        *this,
        fmt::format("base {}, factor {}, low {}, high {}", options_.base, options_.factor, options_.low, options_.high),
        "they must be positive, and high above low", "correct the option");
}

Attributes RotaryEmbedding::attributes() const {
  return {{"heads", options_.heads}, {"base", options_.base}, {"factor", options_.factor},
          {"low", options_.low},     {"high", options_.high}, {"original_positions", options_.original_positions}};
}

Shape RotaryEmbedding::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 1);
  expect_rank(*this, inputs[0], 2, "[positions, features]");
  if (inputs[0][1] % (2 * options_.heads) != 0)
    fail_shape(*this, fmt::format("{} features for {} heads", inputs[0][1], options_.heads),
               "each head needs an even number of features", "choose another width or number of heads");
  return inputs[0];
}

std::vector<ShardingOption> RotaryEmbedding::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options = elementwise_options(1, inputs[0], degree, 2);
  if (options_.heads % degree != 0)
    std::erase_if(options, [](const ShardingOption& option) { return option.output == Placement::shard(2); });
  return options;
}

/// Two products of each feature, and their sum.
double RotaryEmbedding::forward_flops(std::span<const Shape> inputs) const {
  return 3.0 * double(element_count(inputs[0]));
}

/// The rule for longer texts: Llama 3.1 (Meta, 2024), with a smooth transition between speeds that stay and speeds that
/// are divided by the factor.
std::vector<double> RotaryEmbedding::speeds(int64_t pairs) const {
  std::vector<double> all;
  all.reserve(size_t(pairs));
  for (int64_t i = 0; i < pairs; ++i) {
    const double speed = std::pow(options_.base, -double(i) / double(pairs));
    const double waves = double(options_.original_positions) * speed / kTurn;  // full turns over the original positions
    const double share = std::clamp((waves - options_.low) / (options_.high - options_.low), 0.0, 1.0);
    all.push_back(speed * (share + (1 - share) / options_.factor));
  }
  return all;
}

/// `direction`: 1, or -1 for the inverse rotation. Angles are computed in float for 16-bit tensors.
at::Tensor RotaryEmbedding::rotated(const LayerCall& call, const at::Tensor& tensor, double direction) const {
  const int64_t positions = tensor.size(1), heads = local_heads(options_.heads, call.option, call.tensor_degree),
                pairs = tensor.size(2) / heads / 2;
  const bool split = call.option && call.option->output == Placement::shard(1);
  const int64_t first = split ? positions * call.tensor_index : 0;
  const auto type = tensor.scalar_type();
  const auto wide = tensor.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat);
  const at::Tensor speed = at::tensor(speeds(pairs), at::kDouble).to(wide.device(), wide.dtype().toScalarType());
  at::Tensor angles = at::outer(at::arange(first, first + positions, wide), speed).unsqueeze(1);
  const at::Tensor cosine = at::cos(angles).to(type), sine = angles.sin_().mul_(direction).to(type);

  const Shape parts{tensor.size(0), positions, heads, 2, pairs};
  const at::Tensor from = tensor.contiguous().view(parts), a = from.select(3, 0), b = from.select(3, 1);
  at::Tensor result = at::empty(parts, tensor.options());
  result.select(3, 0).copy_(a).mul_(cosine).addcmul_(b, sine, -1);
  result.select(3, 1).copy_(b).mul_(cosine).addcmul_(a, sine);
  return result.view(tensor.sizes());
}

at::Tensor RotaryEmbedding::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  return rotated(call, inputs[0], 1);
}

/// A rotation's adjoint is its inverse.
std::vector<at::Tensor> RotaryEmbedding::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  return {call.wants_input_gradient(0) ? rotated(call, output_gradient, -1) : at::Tensor()};
}

LayerMemory RotaryEmbedding::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  const int64_t pairs = call.inputs[0].shape[2] / local_heads(options_.heads, call.option, call.tensor) / 2;
  const int64_t angles = call.inputs[0].shape[1] * pairs;
  const bool narrow = call.compute != call.master;
  const int64_t tables = 2 * angles * call.compute;  // cosines and sines
  const int64_t peak = angles * (2 * call.master + (narrow ? call.compute : 0));
  set_forward_peak(memory, {peak, tables + memory.output});
  set_backward_peak(memory, {peak, tables + call.output.bytes()});
  return memory;
}

std::string RotaryEmbedding::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const int64_t positions = w.shape()[0], width = w.shape()[1], pairs = width / options_.heads / 2;
  const at::Tensor angles =
      at::outer(at::arange(positions, at::kDouble), at::tensor(speeds(pairs), at::kDouble)).unsqueeze(1);
  const std::string cosine = w.constant(at::cos(angles).to(at::kFloat)),
                    sine = w.constant(at::sin(angles).to(at::kFloat));
  const std::string parts = w.add("Reshape", {w.in(), w.constant(List{0, 0, options_.heads, 2, pairs})});
  const auto part = [&](int64_t i) { return w.add("Gather", {parts, w.constant(i)}, {{"axis", int64_t{3}}}); };
  const auto product = [&](const std::string& x, const std::string& y) { return w.add("Mul", {x, y}); };
  const auto as_part = [&](const std::string& x) { return w.add("Unsqueeze", {x, w.constant(List{3})}); };
  const std::string a = part(0), b = part(1);
  const std::string first = w.add("Sub", {product(a, cosine), product(b, sine)}),
                    second = w.add("Add", {product(b, cosine), product(a, sine)});
  const std::string joined = w.add("Concat", {as_part(first), as_part(second)}, {{"axis", int64_t{3}}});
  return w.add("Reshape", {joined, w.constant(List{0, 0, width})});
}

void RotaryEmbedding::to_script(ScriptWriter& w) const {
  const int64_t pairs = w.shape()[1] / options_.heads / 2;
  std::vector<std::string> numbers;  // each with a point: a list has one type
  for (const double speed : speeds(pairs)) numbers.push_back(script_literal(speed));
  const std::string angles = w.own("angles"), parts = w.own("parts"), a = w.own("a"), b = w.own("b");
  w.set(angles,
        fmt::format("torch.unsqueeze(torch.outer(torch.arange({0}.size(1), dtype={0}.dtype, device={0}.device), "
                    "torch.tensor([{1}], dtype={0}.dtype, device={0}.device)), 1)",
                    w.in(), fmt::join(numbers, ", ")));
  w.set(parts,
        fmt::format("torch.reshape({0}, [{0}.size(0), {0}.size(1), {1}, 2, {2}])", w.in(), options_.heads, pairs));
  w.set(a, fmt::format("torch.select({}, 3, 0)", parts));
  w.set(b, fmt::format("torch.select({}, 3, 1)", parts));
  w.result(
      fmt::format("torch.flatten(torch.stack([{0} * torch.cos({2}) - {1} * torch.sin({2}), "
                  "{1} * torch.cos({2}) + {0} * torch.sin({2})], 3), 2)",
                  a, b, angles));
}

}  // namespace trireme
