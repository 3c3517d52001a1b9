#include "trireme/layers/attention.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/devices/device.h"
#include "model/export/writers.h"
#include "model/kernels/flash_attention.h"
#include "model/layers/call_facts.h"
#include "model/layers/common.h"
#include "model/layers/keep_mask.h"
#include "trireme/layer.h"

namespace trireme {
namespace {

/// The inputs by head, the softmax's output, and in training with dropout its mask. Flash attention saves the inputs by
/// head, the output and the logarithms.
enum AttentionSaved { kAttentionQueries, kAttentionKeys, kAttentionValues, kAttentionWeights, kAttentionMask };
enum FlashSaved { kFlashOutput = kAttentionWeights, kFlashLogarithms };

constexpr int64_t kAttentionFusedParts = 3;
/// Score of padding; finite, so that a query that sees only padding gives no NaN.
constexpr double kUnseen = -1e30;

/// Returns [n, t, heads * d] as [n, heads, t, d], contiguous, so that matrix products need no copy.
at::Tensor by_head(const at::Tensor& tensor, int64_t heads) {
  return tensor.reshape({tensor.size(0), tensor.size(1), heads, tensor.size(2) / heads}).transpose(1, 2).contiguous();
}

/// The same as a view.
at::Tensor seen_by_head(const at::Tensor& tensor, int64_t heads) {
  return tensor.view({tensor.size(0), tensor.size(1), heads, tensor.size(2) / heads}).transpose(1, 2);
}

/// The inverse.
at::Tensor joined(const at::Tensor& tensor) {
  return tensor.transpose(1, 2).reshape({tensor.size(0), tensor.size(2), tensor.size(1) * tensor.size(3)});
}

/// [n, heads, t, d] seen as [n, groups, heads / groups * t, d]: the rows that read one head of keys. And the inverse.
at::Tensor grouped(const at::Tensor& tensor, int64_t groups) {
  return tensor.view({tensor.size(0), groups, tensor.size(1) / groups * tensor.size(2), tensor.size(3)});
}
at::Tensor ungrouped(const at::Tensor& tensor, int64_t heads) {
  return tensor.view({tensor.size(0), heads, tensor.size(1) * tensor.size(2) / heads, tensor.size(3)});
}

double scale_of(const at::Tensor& queries) { return 1 / std::sqrt(double(queries.size(-1))); }

/// Hides keys after each query; the queries are first .. first + t - 1.
void hide_later_keys(at::Tensor& scores, int64_t first) {
  at::Tensor later = at::ones({scores.size(2), scores.size(3)}, scores.options().dtype(at::kBool)).triu_(first + 1);
  scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
}

/// Sizes of a call: bytes of queries, keys (the same for values) and weights, and the number of weights.
struct CallSizes {
  int64_t queries, keys, weights, elements, heads, key_heads, positions, samples;
};

CallSizes sizes_of(const AttentionOptions& o, const CallShapes& call) {
  const bool split_heads = call.option->output == Placement::shard(2);
  const int64_t degree = split_heads ? call.tensor : 1, heads = o.heads / degree, positions = call.output.shape[1];
  const int64_t keys = o.fused ? positions : call.inputs[1].shape[1],
                elements = call.samples * heads * positions * keys;
  return {.queries = call.output.bytes(),
          .keys = o.fused ? call.output.bytes() : call.inputs[1].bytes(),
          .weights = elements * call.compute,
          .elements = elements,
          .heads = heads,
          .key_heads = (o.key_heads > 0 ? o.key_heads : o.heads) / degree,
          .positions = positions,
          .samples = call.samples};
}

}  // namespace

Attention::Attention(std::string name, AttentionOptions options) : Layer(std::move(name)), options_(options) {
  if (options_.heads < 1)
    fail_shape(*this, fmt::format("{} heads", options_.heads), "it needs at least 1", "correct the option");
  if (!(options_.dropout >= 0 && options_.dropout < 1))
    fail_shape(*this, fmt::format("dropout {}", options_.dropout), "it must be at least 0 and below 1",
               "correct the option");
  if (options_.key_heads < 0 || options_.heads % key_heads() != 0)
    fail_shape(*this, fmt::format("{} heads of keys for {} of queries", options_.key_heads, options_.heads),
               "the former must divide the latter", "choose other numbers of heads");
  if (options_.fused && key_heads() != options_.heads)
    fail_shape(*this, "a fused input with fewer heads of keys", "its three parts have the same width",
               "project queries, keys and values one by one");
}

void Attention::check_shapes(const Shape& queries, const Shape& keys, const Shape& values) const {
  for (const Shape& input : {queries, keys, values}) expect_rank(*this, input, 2, "[positions, features]");
  if (queries[1] % options_.heads != 0)
    fail_shape(*this, fmt::format("{} features for {} heads", queries[1], options_.heads),
               "the heads must divide the features", "choose another width or number of heads");
  const int64_t width = queries[1] / options_.heads * key_heads();
  if (keys != values || keys[1] != width || (options_.causal && keys[0] != queries[0]))
    fail_shape(*this,
               fmt::format("sample shapes {}, {} and {} of queries, keys and values", to_string(queries),
                           to_string(keys), to_string(values)),
               fmt::format("keys and values must be equal, with {} features{}", width,
                           options_.causal ? " and, for a causal mask, as many positions as the queries" : ""),
               "project them to that width first");
}

Attributes Attention::attributes() const {
  Attributes attributes{{"heads", options_.heads},
                        {"causal", options_.causal},
                        {"dropout", options_.dropout},
                        {"fused", options_.fused},
                        {"padding", options_.padding}};
  if (key_heads() != options_.heads) attributes["key_heads"] = key_heads();
  return attributes;
}

Shape Attention::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, size_t(input_count()));
  if (options_.fused && (inputs[0].size() != 3 || inputs[0][1] != kAttentionFusedParts))
    fail_shape(*this, fmt::format("input sample shape {}", to_string(inputs[0])),
               "fused queries, keys and values are [positions, 3, features]", "give it a linear layer with 3 parts");
  Shape queries = inputs[0];
  if (options_.fused) queries.erase(queries.begin() + 1);
  const Shape &keys = options_.fused ? queries : inputs[1], &values = options_.fused ? queries : inputs[2];
  check_shapes(queries, keys, values);
  if (options_.padding && inputs.back() != Shape{keys[0]})
    fail_shape(*this, fmt::format("token sample shape {} for keys {}", to_string(inputs.back()), to_string(keys)),
               "there must be one token per key", "give it the tokens that the keys came from");
  return queries;
}

std::vector<ShardingOption> Attention::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(input_count())};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), sum = Placement::partial(), sequence = Placement::shard(1);
  auto with_tokens = [&](std::vector<Placement> placements) {
    if (options_.padding) placements.push_back(whole);
    return placements;
  };
  if (key_heads() % degree == 0) {
    const auto features =
        with_tokens(options_.fused ? std::vector{Placement::shard(3)} : std::vector<Placement>(3, Placement::shard(2)));
    options.push_back({.name = "heads",
                       .inputs = features,
                       .output = Placement::shard(2),
                       .input_gradients = features,
                       .divides_work = true});
  }
  if (!options_.fused && inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence",
                       .inputs = with_tokens({sequence, whole, whole}),
                       .output = sequence,
                       .input_gradients = with_tokens({sequence, sum, sum}),
                       .divides_work = true});
  return options;
}

double Attention::forward_flops(std::span<const Shape> inputs) const {
  const Shape queries = output_shape(inputs);
  const int64_t keys = options_.fused ? queries[0] : inputs[1][0];
  return 4.0 * double(element_count(queries)) * double(keys);  // q k^T and the weighted sum of v
}

Attention::Part Attention::part_of(const LayerCall& call, int64_t queries) const {
  Part part{options_.heads, key_heads(), 0, 0, queries};
  if (!call.option || !call.option->output.is_shard()) return part;
  if (call.option->output.dim == 2) {
    part.heads = options_.heads / call.tensor_degree;
    part.key_heads = key_heads() / call.tensor_degree;
    part.first_head = part.heads * call.tensor_index;
  } else {
    part.first_query = queries * call.tensor_index;
    part.all_queries = queries * call.tensor_degree;
  }
  return part;
}

at::Tensor Attention::weights_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& tokens,
                                 int64_t first_query) const {
  at::Tensor scores = ungrouped(at::matmul(grouped(q, k.size(1)), k.transpose(2, 3)), q.size(1)).mul_(scale_of(q));
  if (tokens.defined()) scores.masked_fill_(tokens.eq(kPadding).view({tokens.size(0), 1, 1, tokens.size(1)}), kUnseen);
  if (options_.causal) hide_later_keys(scores, first_query);
  return at::_softmax(scores, -1, /*half_to_float=*/false);
}

/// Flash attention has no masks other than the causal one of whole sequences, and as many heads of keys as of queries.
bool Attention::uses_flash(const LayerCall& call, int64_t first_query, const at::Tensor& queries,
                           const at::Tensor& keys) const {
  const bool is_whole = !options_.causal || (first_query == 0 && queries.size(2) == keys.size(2));
  return is_whole && !options_.padding && !drops(call) && queries.size(1) == keys.size(1) &&
         can_use_flash_attention(queries, keys);
}

at::Tensor Attention::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  auto input = [&](int i) { return options_.fused ? inputs[0].select(2, i) : inputs[size_t(i)]; };
  const int64_t samples = inputs[0].size(0), queries = inputs[0].size(1), keys = input(kAttentionKeys).size(1);
  const Part part = part_of(call, queries);
  if (!on_host(inputs[0])) {
    const at::Tensor seen_q = seen_by_head(input(kAttentionQueries), part.heads),
                     seen_k = seen_by_head(input(kAttentionKeys), part.key_heads),
                     seen_v = seen_by_head(input(kAttentionValues), part.key_heads);
    if (seen_v.stride(3) == 1 && uses_flash(call, part.first_query, seen_q, seen_k)) {
      const FlashAttention flash = flash_attention(seen_q, seen_k, seen_v, options_.causal, scale_of(seen_q));
      call.saved = {seen_q, seen_k, seen_v, flash.output, flash.logarithms};
      return joined(flash.output);
    }
  }
  at::Tensor q = by_head(input(kAttentionQueries), part.heads), k = by_head(input(kAttentionKeys), part.key_heads),
             v = by_head(input(kAttentionValues), part.key_heads);
  at::Tensor weights = weights_of(q, k, options_.padding ? inputs.back() : at::Tensor(), part.first_query);
  call.saved = {q, k, v, weights};
  const auto average = [&](const at::Tensor& used) {
    return joined(ungrouped(at::matmul(grouped(used, part.key_heads), v), part.heads));
  };
  if (!drops(call)) return average(weights);
  at::Tensor mask = draw_keep_mask(call, *this, options_.dropout, samples,
                                   {.full = {options_.heads, part.all_queries, keys},
                                    .offset = {part.first_head, part.first_query, 0},
                                    .local = {part.heads, queries, keys}},
                                   q.device());
  call.saved.push_back(mask);
  return average(at::mul(weights, mask).mul_(1 / (1 - options_.dropout)));
}

std::vector<at::Tensor> Attention::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  auto wanted = [&](int i) { return call.wants_input_gradient(options_.fused ? 0 : i); };
  const at::Tensor &q = call.saved.at(kAttentionQueries), &k = call.saved.at(kAttentionKeys),
                   &v = call.saved.at(kAttentionValues);
  if (uses_flash(call, part_of(call, q.size(2)).first_query, q, k)) {
    const std::array<at::Tensor, kAttentionFusedParts> parts = flash_attention_backward(
        seen_by_head(output_gradient.contiguous(), q.size(1)), q, k, v,
        {call.saved.at(kFlashOutput), call.saved.at(kFlashLogarithms)}, options_.causal, scale_of(q));
    if (options_.fused) return {at::stack({joined(parts[0]), joined(parts[1]), joined(parts[2])}, 2)};
    return {joined(parts[0]), joined(parts[1]), joined(parts[2])};
  }
  const at::Tensor& weights = call.saved.at(kAttentionWeights);
  const bool drops = this->drops(call);
  const double rescale = 1 / (1 - options_.dropout);
  const int64_t heads = q.size(1), groups = k.size(1);
  const at::Tensor gradient = grouped(by_head(output_gradient, heads), groups);
  std::vector<at::Tensor> of_parts(kAttentionFusedParts);
  if (wanted(kAttentionValues)) {
    at::Tensor used = drops ? at::mul(weights, call.saved.at(kAttentionMask)).mul_(rescale) : weights;
    of_parts[kAttentionValues] = joined(at::matmul(grouped(used, groups).transpose(2, 3), gradient));
  }
  if (wanted(kAttentionQueries) || wanted(kAttentionKeys)) {
    at::Tensor weight_gradient = ungrouped(at::matmul(gradient, v.transpose(2, 3)), heads);
    if (drops) weight_gradient.mul_(call.saved.at(kAttentionMask)).mul_(rescale);
    // hidden keys have weight 0, so their gradient is 0
    at::Tensor scores =
        at::_softmax_backward_data(weight_gradient, weights, -1, weights.scalar_type()).mul_(scale_of(q));
    scores = grouped(scores, groups);
    if (wanted(kAttentionQueries)) of_parts[kAttentionQueries] = joined(ungrouped(at::matmul(scores, k), heads));
    if (wanted(kAttentionKeys))
      of_parts[kAttentionKeys] = joined(at::matmul(scores.transpose(2, 3), grouped(q, groups)));
  }
  std::vector<at::Tensor> result = of_parts;
  if (options_.fused) result = {wanted(kAttentionQueries) ? at::stack(of_parts, 2) : at::Tensor()};
  if (options_.padding) result.emplace_back();  // tokens have no gradient
  return result;
}

/// The last input holds tokens.
std::optional<int64_t> Attention::integers_below(std::span<const Shape> inputs, size_t index) const {
  return options_.padding && index + 1 == inputs.size() ? std::optional<int64_t>(0) : std::nullopt;
}

/// Fused kernels keep queries, keys, values and the output, and of the scores one float32 number per row: the logarithm
/// of the softmax's divisor (Dao et al., "FlashAttention", 2022). A dropout mask is drawn again.
LayerMemory fused_memory(LayerMemory memory, const CallSizes& s) {
  memory.keeps_input.assign(memory.keeps_input.size(), true);
  memory.keeps_output = true;
  memory.saved = s.heads * s.positions * s.samples * int64_t(sizeof(float));
  return memory;
}

LayerMemory Attention::memory(const CallShapes& call) const {
  LayerMemory memory = plain_memory(call);
  const CallSizes s = sizes_of(options_, call);
  if (call.fused_attention) return fused_memory(std::move(memory), s);
  const auto separates = [&](int64_t heads) { return options_.fused || (heads > 1 && s.positions > 1); };
  const bool drops = options_.dropout > 0, copies = separates(s.heads),  // heads are separated by a copy
      copies_keys = separates(s.key_heads);
  const int64_t parts = (copies ? s.queries : 0) + (copies_keys ? 2 * s.keys : 0),
                causal = options_.causal ? s.elements / std::max<int64_t>(call.samples, 1) : 0;
  const int64_t joined = copies ? s.queries : 0;
  memory.saved = s.weights + parts + (drops ? s.elements : 0);
  if (!options_.fused)
    for (size_t i = 0; i < 3; ++i) memory.keeps_input[i] = i == kAttentionQueries ? !copies : !copies_keys;
  // Peaks of forward: the scores beside the weights; the dropped weights (and the mask in their dtype) beside all saved
  // tensors; the average by heads.
  const int64_t dropped = drops ? s.weights : 0;
  set_forward_peak(memory, {parts + 2 * s.weights + causal / std::max<int64_t>(s.heads, 1), memory.saved + 2 * dropped,
                            memory.saved + dropped + joined + s.queries});
  if (options_.padding) memory.input_gradients.back() = 0;
  // Peaks of backward: values; the gradients of scores and weights with queries, then with keys; for a fused input the
  // stack of all three.
  const int64_t g = joined, after = g + s.keys, both = 2 * s.weights;
  const int64_t stacked = options_.fused ? parts + s.queries * 3 : 0;
  const int64_t copied_keys = copies_keys ? s.keys : 0;
  set_backward_peak(
      memory, {g + dropped * 2, g + dropped + s.keys + copied_keys, after + both, after + both + s.queries + joined,
               after + both + s.queries + s.keys + copied_keys, g + stacked});
  return memory;
}

/// One kernel per pass, which skips what a causal mask hides. Backward computes the scores again: five products for the
/// two of forward (Dao, "FlashAttention-2", 2023).
std::vector<OperatorWork> fused_work(double flops, const CallSizes& s, Pass pass) {
  const double read = double(s.queries) + 2 * double(s.keys), output = double(s.queries);
  OperatorWork work{.flops = flops, .bytes = read + output, .fused_attention = true};
  if (pass == Pass::weight_gradients) return {};
  if (pass == Pass::input_gradients) {
    work.flops = 2.5 * flops;
    work.bytes = 2 * (read + output);
  }
  return {work};
}

/// Not fused, as in the implementations of 2020 (Narayanan et al., SC 2021): every operator writes the scores to memory
/// and reads them again, and each product has two gradients. Reads and writes per operator: Ivanov et al., "Data
/// Movement Is All You Need", MLSys 2021. Forward: scores, softmax (with scale and causal mask), dropout, average.
/// Backward: the gradients of both factors of both products.
std::vector<OperatorWork> Attention::work(const CallShapes& call, double flops, Pass pass) const {
  const CallSizes b = sizes_of(options_, call);
  if (call.fused_attention) return fused_work(flops * (options_.causal ? 0.5 : 1), b, pass);
  const double mask = options_.dropout > 0 ? double(b.elements) : 0;  // one byte per weight
  // bytes of the scores; also of the weights that the softmax computes from them
  const auto scores = double(b.weights);
  const auto through = [](double bytes) { return OperatorWork{.bytes = bytes}; };
  const OperatorWork with_keys{// product with keys or values
                               .flops = flops / 2,
                               .bytes = double(b.queries) + double(b.keys) + scores,
                               .multiplies = true};
  std::vector<OperatorWork> work;
  if (pass == Pass::forward) {
    work = {with_keys, through(2 * scores), with_keys};
    if (mask > 0) work.insert(work.begin() + 2, through(2 * scores + mask));
  } else if (pass == Pass::input_gradients) {
    // gradients of the weights and the values; of the scores (from the weights and their gradients); of queries and
    // keys
    work = {with_keys, with_keys, through(3 * scores), with_keys, with_keys};
    if (mask > 0) work.insert(work.begin() + 2, through(2 * scores + mask));
  }
  return work;
}

std::string Attention::to_onnx(OnnxWriter& w) const {
  using List = OnnxWriter::List;
  const int64_t heads = options_.heads, width = w.shape().back(), queries = w.shape()[0], features = width / heads;
  const auto input = [&](int64_t i) {
    return options_.fused ? w.add("Gather", {w.in(), w.constant(i)}, {{"axis", int64_t{2}}}) : w.in(size_t(i));
  };
  // converts [n, t, e] to [n, heads, t, e / heads], with the last two dims exchanged if requested
  const auto by_head = [&](const std::string& tensor, int64_t parts, bool exchanged) {
    const std::string split = w.add("Reshape", {tensor, w.constant(List{0, 0, parts, features})});
    const std::string turned = w.add("Transpose", {split}, {{"perm", exchanged ? List{0, 2, 3, 1} : List{0, 2, 1, 3}}});
    if (parts == heads) return turned;
    // each head is repeated for the heads of queries that read it
    const std::string several = w.add(
        "Expand", {w.add("Unsqueeze", {turned, w.constant(List{2})}), w.constant(List{1, 1, heads / parts, 1, 1})});
    return w.add("Reshape",
                 {several, w.constant(exchanged ? List{0, heads, features, -1} : List{0, heads, -1, features})});
  };
  const std::string q = by_head(input(kAttentionQueries), heads, false),
                    k = by_head(input(kAttentionKeys), key_heads(), true),
                    values = by_head(input(kAttentionValues), key_heads(), false);
  std::string scores =
      w.add("Mul", {w.add("MatMul", {q, k}), w.constant(1 / std::sqrt(double(width) / double(heads)))});
  if (options_.padding) {
    const std::string padding = w.add("Equal", {w.inputs().back(), w.constant(int64_t{kPadding})});
    const std::string hidden = w.add("Unsqueeze", {padding, w.constant(List{1, 2})});
    scores = w.add("Where", {hidden, w.constant(kUnseen), scores});
  }
  if (options_.causal) {
    const std::string later = w.constant(at::ones({queries, queries}, at::kBool).triu(1));
    scores = w.add("Where", {later, w.constant(-std::numeric_limits<double>::infinity()), scores});
  }
  const std::string read = w.add("MatMul", {w.add("Softmax", {scores}, {{"axis", int64_t{-1}}}), values});
  return w.add("Reshape", {w.add("Transpose", {read}, {{"perm", List{0, 2, 1, 3}}}), w.constant(List{0, 0, width})});
}

void Attention::to_script(ScriptWriter& w) const {
  const int64_t heads = options_.heads, width = w.shape().back();
  std::vector<std::string> parts{w.own("q"), w.own("k"), w.own("v")};
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t own = i == kAttentionQueries ? heads : key_heads();
    w.set(parts[i], options_.fused ? fmt::format("torch.select({}, 2, {})", w.in(), i) : w.in(i));
    w.set(parts[i], fmt::format("torch.transpose(torch.reshape({0}, [{0}.size(0), {0}.size(1), {1}, {2}]), 1, 2)",
                                parts[i], own, width / heads));
    if (own < heads) w.set(parts[i], fmt::format("torch.repeat_interleave({}, {}, 1)", parts[i], heads / own));
  }
  const std::string weights = w.own("weights"), &q = parts[0], &k = parts[1], &v = parts[2];
  w.set(weights, fmt::format("torch.mul(torch.matmul({}, torch.transpose({}, 2, 3)), {})", q, k,
                             script_literal(1 / std::sqrt(double(width) / double(heads)))));
  if (options_.padding)
    w.set(weights, fmt::format("torch.masked_fill({}, torch.unsqueeze(torch.unsqueeze(torch.eq({}, {}), 1), 1), {})",
                               weights, w.inputs().back(), kPadding, script_literal(kUnseen)));
  if (options_.causal) {
    const std::string order = w.own("order");
    w.set(order, fmt::format("torch.arange({0}.size(2), device={0}.device)", q));
    w.set(weights,
          fmt::format(
              "torch.masked_fill({0}, torch.gt(torch.unsqueeze({1}, 0), torch.unsqueeze({1}, 1)), float(\"-inf\"))",
              weights, order));
  }
  w.set(weights, script_call("softmax", {weights, "-1"}));
  if (options_.dropout > 0)
    w.set(weights, script_call("dropout", {weights, script_literal(options_.dropout), "self.training"}));
  w.result(fmt::format("torch.flatten(torch.transpose(torch.matmul({}, {}), 1, 2), 2)", weights, v));
}

}  // namespace trireme
