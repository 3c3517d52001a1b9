#include "trireme/layers/additive_attention.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>

#include "model/export/writers.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "trireme/layer.h"

namespace trireme {
namespace {

enum AdditiveParameter {
  kAdditiveQueryWeight,
  kAdditiveMemoryWeight,
  kAdditiveEnergy,
  kAdditiveScale,
  kAdditiveBias,
  kAdditiveParameters
};
constexpr double kHidden = -1e30;  ///< score of padding; finite, so that a source with only padding gives no NaN

}  // namespace

AdditiveAttention::AdditiveAttention(std::string name, AdditiveAttentionOptions options)
    : AutogradLayer(std::move(name)), options_(options) {
  if (options_.query_width < 1 || options_.memory_width < 1 || options_.units < 1)
    fail_shape(*this,
               fmt::format("query_width {}, memory_width {}, units {}", options_.query_width, options_.memory_width,
                           options_.units),
               "all must be positive", "correct the layer's options");
}

std::vector<ParameterSpec> AdditiveAttention::parameters() const {
  const AdditiveAttentionOptions& o = options_;
  auto uniform = [](int64_t fan_in) {
    return Init::uniform(-1 / std::sqrt(double(fan_in)), 1 / std::sqrt(double(fan_in)));
  };
  return {{name() + ".linear_q.weight", {o.units, o.query_width}, uniform(o.query_width)},
          {name() + ".linear_k.weight", {o.units, o.memory_width}, uniform(o.memory_width)},
          {name() + ".linear_att", {o.units}, uniform(o.units)},
          {name() + ".normalize_scalar", {1}, Init::constant(1 / std::sqrt(double(o.units)))},
          {name() + ".normalize_bias", {o.units}, Init::constant(0)}};
}

Shape AdditiveAttention::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 3);
  const Shape &queries = inputs[0], &memory = inputs[1], &tokens = inputs[2];
  expect_rank(*this, queries, 2, "[positions, features]");
  expect_rank(*this, memory, 2, "[positions, features]");
  if (queries[1] != options_.query_width || memory[1] != options_.memory_width || tokens != Shape{memory[0]})
    fail_shape(*this,
               fmt::format("sample shapes {}, {} and {} of queries, memory and tokens", to_string(queries),
                           to_string(memory), to_string(tokens)),
               fmt::format("queries have {} features, the memory {}, and one token per position", options_.query_width,
                           options_.memory_width),
               "correct the layer's widths or connect the right inputs");
  return {queries[0], options_.memory_width};
}

std::vector<ShardingOption> AdditiveAttention::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(3, kAdditiveParameters)};
  if (degree == 1 || inputs[0][0] % degree != 0) return options;
  const Placement whole = Placement::replicate(), sum = Placement::partial(), sequence = Placement::shard(1);
  options.push_back({.name = "sequence",
                     .inputs = {sequence, whole, whole},
                     .output = sequence,
                     .input_gradients = {sequence, sum, whole},
                     .parameters = std::vector<Placement>(kAdditiveParameters, whole),
                     .parameter_gradients = std::vector<Placement>(kAdditiveParameters, sum),
                     .divides_work = true});
  return options;
}

double AdditiveAttention::forward_flops(std::span<const Shape> inputs) const {
  const double queries = double(inputs[0][0]), positions = double(inputs[1][0]), units = double(options_.units);
  const double projections =
      queries * double(options_.query_width) * units + positions * double(options_.memory_width) * units;
  return 2 * (projections + queries * positions * (units + double(options_.memory_width)));
}

at::Tensor AdditiveAttention::compute(LayerCall&, std::span<const at::Tensor> inputs,
                                      std::span<const at::Tensor> p) const {
  const at::Tensor &queries = inputs[0], &memory = inputs[1];
  const at::Tensor q = at::matmul(queries, p[kAdditiveQueryWeight].t()).unsqueeze(2);  // [n, t, 1, units]
  const at::Tensor k =
      (at::matmul(memory, p[kAdditiveMemoryWeight].t()) + p[kAdditiveBias]).unsqueeze(1);  // [n, 1, s, units]
  const at::Tensor direction = p[kAdditiveEnergy] * (p[kAdditiveScale] / p[kAdditiveEnergy].square().sum().sqrt());
  const at::Tensor scores = at::matmul(at::tanh(q + k), direction);  // [n, t, s]
  const at::Tensor padding = inputs[2].eq(kPadding).unsqueeze(1);
  return at::matmul(at::softmax(scores.masked_fill(padding, kHidden), -1), memory);
}

/// Retained by autograd: tanh of all pairs [n, t, s, units], the weights [n, t, s], and the inputs of the projections.
LayerMemory AdditiveAttention::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  memory.keeps_input.assign(call.inputs.size(), true);
  const int64_t n = call.samples, queries = call.inputs[0].shape[1], keys = call.inputs[1].shape[1],
                units = call.parameters[0].shape[0];
  const int64_t pairs = n * queries * keys * call.compute, mask = n * keys,
                small = (n * queries + n * keys) * units * call.compute;
  memory.saved = pairs * units + pairs + mask + 2 * units * call.compute;
  set_forward_peak(memory, {2 * pairs * units + small + pairs, memory.saved + pairs + call.output.bytes()});
  memory.input_gradients[2] = 0;
  // gradients of the tanh and of its input; the weights have been released by then, the first summand of the memory's
  // gradient exists
  set_backward_peak(memory, {2 * pairs * units - pairs + memory.input_gradients[1]});
  return memory;
}

std::vector<OperatorWork> AdditiveAttention::work(const CallShapes& call, double flops, Pass) const {
  constexpr double kOperators = 7;  // two projections, sum, tanh, energies, softmax, average
  return one_pass(call, flops, kOperators, true);
}

std::string AdditiveAttention::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const std::string q = w.add("MatMul", {w.in(0), w.transposed(w.parameter(kAdditiveQueryWeight))});
  const std::string k = w.add("Add", {w.add("MatMul", {w.in(1), w.transposed(w.parameter(kAdditiveMemoryWeight))}),
                                      w.parameter(kAdditiveBias)});
  const std::string energy = w.parameter(kAdditiveEnergy);
  const std::string length = w.add("Sqrt", {w.add("ReduceSum", {w.add("Mul", {energy, energy})})});
  const std::string direction = w.add("Mul", {energy, w.add("Div", {w.parameter(kAdditiveScale), length})});
  const std::string sums =
      w.add("Add", {w.add("Unsqueeze", {q, w.constant(List{2})}), w.add("Unsqueeze", {k, w.constant(List{1})})});
  std::string scores = w.add("MatMul", {w.add("Tanh", {sums}), direction});
  const std::string padding = w.add("Equal", {w.in(2), w.constant(int64_t{kPadding})});
  scores = w.add("Where", {w.add("Unsqueeze", {padding, w.constant(List{1})}), w.constant(kHidden), scores});
  return w.add("MatMul", {w.add("Softmax", {scores}, {{"axis", int64_t{-1}}}), w.in(1)});
}

void AdditiveAttention::to_script(ScriptWriter& w) const {
  const std::string direction = w.own("direction"), scores = w.own("scores");
  const std::string energy = w.parameter(kAdditiveEnergy);
  w.set(direction, fmt::format("torch.mul({0}, torch.div({1}, torch.sqrt(torch.sum(torch.mul({0}, {0})))))", energy,
                               w.parameter(kAdditiveScale)));
  w.set(scores, fmt::format("torch.tanh(torch.add(torch.unsqueeze(torch.linear({}, {}), 2), "
                            "torch.unsqueeze(torch.linear({}, {}, {}), 1)))",
                            w.in(), w.parameter(kAdditiveQueryWeight), w.in(1), w.parameter(kAdditiveMemoryWeight),
                            w.parameter(kAdditiveBias)));
  w.set(scores, fmt::format("torch.masked_fill(torch.matmul({}, {}), torch.unsqueeze(torch.eq({}, {}), 1), {})", scores,
                            direction, w.in(2), kPadding, script_literal(kHidden)));
  w.result(fmt::format("torch.matmul(torch.softmax({}, -1), {})", scores, w.in(1)));
}

}  // namespace trireme
