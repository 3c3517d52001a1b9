#include "model/layers/attention.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "model/layers/common.h"
#include "model/layers/keep_mask.h"

namespace trireme {
namespace {

/// Inputs by head, the softmax's output, and dropout's mask while training with dropout.
enum Saved { kQueries, kKeys, kValues, kWeights, kMask };

/// [n, t, heads * d] as [n, heads, t, d], laid out anew so that products read it as it is.
at::Tensor by_head(const at::Tensor& tensor, int64_t heads) {
  return tensor.reshape({tensor.size(0), tensor.size(1), heads, tensor.size(2) / heads}).transpose(1, 2).contiguous();
}

/// The other way.
at::Tensor joined(const at::Tensor& tensor) {
  return tensor.transpose(1, 2).reshape({tensor.size(0), tensor.size(2), tensor.size(1) * tensor.size(3)});
}

double scale_of(const at::Tensor& queries) { return 1 / std::sqrt(double(queries.size(-1))); }

/// Queries first .. first + t - 1 do not see keys after them.
void hide_later_keys(at::Tensor& scores, int64_t first) {
  at::Tensor later = at::ones({scores.size(2), scores.size(3)}, scores.options().dtype(at::kBool)).triu_(first + 1);
  scores.masked_fill_(later, -std::numeric_limits<double>::infinity());
}

}  // namespace

Attention::Attention(std::string name, AttentionOptions options) : Layer(std::move(name)), options_(options) {
  if (options_.heads < 1) fail_shape(*this, fmt::format("{} heads", options_.heads), "it needs at least 1", "correct the option");
  if (!(options_.dropout >= 0 && options_.dropout < 1))
    fail_shape(*this, fmt::format("dropout {}", options_.dropout), "it must be at least 0 and below 1", "correct the option");
}

Shape Attention::output_shape(std::span<const Shape> inputs) const {
  expect_inputs(*this, inputs, 3);
  for (const Shape& input : inputs) expect_rank(*this, input, 2, "[positions, features]");
  const Shape &queries = inputs[0], &keys = inputs[1], &values = inputs[2];
  if (keys != values || keys[1] != queries[1] || (options_.causal && keys[0] != queries[0]))
    fail_shape(*this,
               fmt::format("sample shapes {}, {} and {} of queries, keys and values", to_string(queries), to_string(keys),
                           to_string(values)),
               options_.causal ? "with a causal mask all three must be equal"
                               : "keys and values must be equal, with as many features as the queries",
               "project them to one width first");
  if (queries[1] % options_.heads != 0)
    fail_shape(*this, fmt::format("{} features for {} heads", queries[1], options_.heads), "the heads must divide the features",
               "choose another width or number of heads");
  return queries;
}

std::vector<ShardingOption> Attention::sharding_options(std::span<const Shape> inputs, int degree) const {
  std::vector<ShardingOption> options{replicate_option(3)};
  if (degree == 1) return options;
  const Placement whole = Placement::replicate(), sum = Placement::partial(), sequence = Placement::shard(1);
  if (options_.heads % degree == 0) {
    const std::vector<Placement> features(3, Placement::shard(2));
    options.push_back({.name = "heads", .inputs = features, .output = features[0], .input_gradients = features,
                       .divides_work = true});
  }
  if (inputs[0][0] % degree == 0)
    options.push_back({.name = "sequence", .inputs = {sequence, whole, whole}, .output = sequence,
                       .input_gradients = {sequence, sum, sum}, .divides_work = true});
  return options;
}

double Attention::forward_flops(std::span<const Shape> inputs) const {
  return 4.0 * double(element_count(inputs[0])) * double(inputs[1][0]);  // q k^T and the weighted sum of v
}

Attention::Part Attention::part_of(const LayerCall& call, int64_t queries) const {
  Part part{options_.heads, 0, 0, queries};
  if (!call.option || !call.option->output.is_shard()) return part;
  if (call.option->output.dim == 2) {
    part.heads = options_.heads / call.tensor_degree;
    part.first_head = part.heads * call.tensor_index;
  } else {
    part.first_query = queries * call.tensor_index;
    part.all_queries = queries * call.tensor_degree;
  }
  return part;
}

at::Tensor Attention::forward(LayerCall& call, std::span<const at::Tensor> inputs) const {
  const int64_t samples = inputs[0].size(0), queries = inputs[0].size(1), keys = inputs[1].size(1);
  const Part part = part_of(call, queries);
  at::Tensor q = by_head(inputs[0], part.heads), k = by_head(inputs[1], part.heads), v = by_head(inputs[2], part.heads);
  at::Tensor scores = at::matmul(q, k.transpose(2, 3)).mul_(scale_of(q));
  if (options_.causal) hide_later_keys(scores, part.first_query);
  at::Tensor weights = at::_softmax(scores, -1, /*half_to_float=*/false);
  call.saved = {q, k, v, weights};
  if (!drops(call)) return joined(at::matmul(weights, v));
  at::Tensor mask = draw_keep_mask(call, *this, options_.dropout, samples,
                                   {.full = {options_.heads, part.all_queries, keys},
                                    .offset = {part.first_head, part.first_query, 0},
                                    .local = {part.heads, queries, keys}});
  call.saved.push_back(mask);
  return joined(at::matmul(at::mul(weights, mask).mul_(1 / (1 - options_.dropout)), v));
}

std::vector<at::Tensor> Attention::backward(LayerCall& call, const at::Tensor& output_gradient) const {
  const at::Tensor &q = call.saved.at(kQueries), &k = call.saved.at(kKeys), &v = call.saved.at(kValues);
  const at::Tensor& weights = call.saved.at(kWeights);
  const bool drops = this->drops(call);
  const double rescale = 1 / (1 - options_.dropout);
  at::Tensor gradient = by_head(output_gradient, q.size(1));
  std::vector<at::Tensor> result(3);
  if (call.wants_input_gradient(2)) {
    at::Tensor used = drops ? at::mul(weights, call.saved.at(kMask)).mul_(rescale) : weights;
    result[2] = joined(at::matmul(used.transpose(2, 3), gradient));
  }
  if (!call.wants_input_gradient(0) && !call.wants_input_gradient(1)) return result;
  at::Tensor weight_gradient = at::matmul(gradient, v.transpose(2, 3));
  if (drops) weight_gradient.mul_(call.saved.at(kMask)).mul_(rescale);
  // hidden keys have weight 0 and so gradient 0
  at::Tensor scores = at::_softmax_backward_data(weight_gradient, weights, -1, weights.scalar_type()).mul_(scale_of(q));
  if (call.wants_input_gradient(0)) result[0] = joined(at::matmul(scores, k));
  if (call.wants_input_gradient(1)) result[1] = joined(at::matmul(scores.transpose(2, 3), q));
  return result;
}

}  // namespace trireme
