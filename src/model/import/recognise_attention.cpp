// Recognises attention that is written out: a product of queries and keys, scaled, a softmax, a product with the
// values, and operators that move the heads to a separate dim and back. Candidates are found by their operators.
// Whether a candidate is attention is decided by comparing numbers: modules scale, order their heads and mask later
// positions in different ways, but the result must be equal.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "model/import/draft.h"
#include "model/import/split_rules.h"
#include "trireme/layers/attention.h"

namespace trireme::torchscript {
namespace {

constexpr double kSame = 1e-9;      // for float64 numbers of magnitude 1
constexpr int64_t kFusedParts = 3;  // queries, keys, values

bool is_product(const Operator& op) {
  return op.name == "aten::matmul" || op.name == "aten::bmm" || op.name == "aten::baddbmm";
}

/// Operators that may occur between the projections and the product: they move, cut or scale.
bool prepares(const Operator& op) {
  static const std::set<std::string_view> parts{"aten::select",           "aten::slice", "aten::chunk", "aten::split",
                                                "aten::split_with_sizes", "aten::unbind"};
  const bool scales = (op.name == "aten::mul" || op.name == "aten::div") && !op.arguments[1].is_value();
  return scales || moves_elements(op.name) || parts.contains(op.name);
}

/// Operators that may occur between the product and the softmax: they scale and mask.
bool masks(const Operator& op) {
  static const std::set<std::string_view> names{"aten::mul",         "aten::div",   "aten::add", "aten::sub",
                                                "aten::masked_fill", "aten::where", "aten::to"};
  return names.contains(op.name) || moves_elements(op.name);
}

/// The operators of a candidate, and the values that it starts from.
struct Candidate {
  std::set<int> operators;
  ValueId queries = -1, keys = -1, values = -1;
  ValueId output = -1;
  int64_t heads = 1;
  double dropout = 0;
};

/// Returns the value that an operator computes from: its only argument that is data.
std::optional<ValueId> data_argument(const Draft& draft, const Operator& op) {
  std::optional<ValueId> found;
  for (const Argument* argument : tensors_of(op)) {
    if (!argument->is_value()) continue;
    if (!draft.value(argument->value).from_data || found) return std::nullopt;
    found = argument->value;
  }
  return found;
}

class Search {
 public:
  Search(const Draft& draft, int softmax) : draft_(draft), softmax_(softmax) {}

  std::optional<Candidate> run() {
    candidate_.operators.insert(softmax_);
    const auto scores = climb(draft_.op(softmax_).arguments[0].value, masks);
    if (!scores || !take_product(*scores)) return std::nullopt;
    if (!descend()) return std::nullopt;
    const Operator& scored = draft_.op(product_);
    const size_t first = scored.name == "aten::baddbmm" ? 1 : 0;
    const auto q = frontier(scored.arguments[first].value), k = frontier(scored.arguments[first + 1].value);
    const auto v = frontier(draft_.op(weighted_).arguments[1].value);
    if (!q || !k || !v) return std::nullopt;
    candidate_.queries = *q;
    candidate_.keys = *k;
    candidate_.values = *v;
    const Shape& query = draft_.value(scored.arguments[first].value).sizes;
    const int64_t width = draft_.form(candidate_.output)->sample.back();
    if (query.back() < 1 || width % query.back() != 0) return std::nullopt;
    candidate_.heads = width / query.back();
    return is_closed() ? std::optional(candidate_) : std::nullopt;
  }

 private:
  /// Follows the producers of a value as long as `belongs` accepts them, and adds them to the candidate. Returns the
  /// value before them.
  std::optional<ValueId> climb(ValueId id, bool (*belongs)(const Operator&)) {
    for (int producer = draft_.value(id).producer; producer >= 0 && belongs(draft_.op(producer));
         producer = draft_.value(id).producer) {
      const auto next = data_argument(draft_, draft_.op(producer));
      if (!next) return std::nullopt;
      candidate_.operators.insert(producer);
      id = *next;
    }
    return id;
  }

  bool take_product(ValueId scores) {
    product_ = draft_.value(scores).producer;
    if (product_ < 0 || !is_product(draft_.op(product_))) return false;
    candidate_.operators.insert(product_);
    return true;
  }

  /// Follows the readers of the softmax: dropout, the product with the values, operators that move the heads back.
  bool descend() {
    auto next = draft_.only_reader(draft_.op(softmax_).result());
    if (next && draft_.op(*next).name == "aten::dropout") {
      const Operator& dropout = draft_.op(*next);
      candidate_.dropout = number_argument(dropout, "p").value_or(0);
      candidate_.operators.insert(*next);
      next = draft_.only_reader(dropout.result());
    }
    if (!next || !is_product(draft_.op(*next)) || draft_.op(*next).name == "aten::baddbmm") return false;
    weighted_ = *next;
    candidate_.operators.insert(weighted_);
    std::vector<int> moves;
    for (next = draft_.only_reader(draft_.op(weighted_).result()); next && moves_elements(draft_.op(*next).name);
         next = draft_.only_reader(draft_.op(*next).result()))
      moves.push_back(*next);
    // ends at the last operator whose result has as many features as all heads together
    while (!moves.empty() && !ends_heads(draft_.op(moves.back()).result())) moves.pop_back();
    if (moves.empty()) return false;
    candidate_.operators.insert(moves.begin(), moves.end());
    candidate_.output = draft_.op(moves.back()).result();
    return true;
  }

  bool ends_heads(ValueId id) const {
    const auto& form = draft_.form(id);
    return form && form->sample.size() == 2 && !form->is_folded &&
           form->sample.back() % draft_.value(draft_.op(weighted_).result()).sizes.back() == 0 &&
           form->extents.size() == 2;
  }

  /// Returns the value that queries, keys or values are computed from: the first one in the graph with as many features
  /// as the output, or three times as many.
  std::optional<ValueId> frontier(ValueId id) {
    const int64_t width = draft_.form(candidate_.output)->sample.back();
    std::optional<ValueId> found;
    std::set<int> passed, inside;
    for (;;) {
      const auto& form = draft_.form(id);
      if (form && form->sample.size() == 2 && form->extents.size() == 2 &&
          (form->sample.back() == width || form->sample.back() == kFusedParts * width)) {
        found = id;
        inside = passed;
      }
      const int producer = draft_.value(id).producer;
      if (producer < 0 || !prepares(draft_.op(producer))) break;
      const auto next = data_argument(draft_, draft_.op(producer));
      if (!next) break;
      passed.insert(producer);
      id = *next;
    }
    candidate_.operators.insert(inside.begin(), inside.end());
    return found;
  }

  /// True if no other operator reads the values that are computed inside.
  bool is_closed() const {
    for (int index : candidate_.operators) {
      if (draft_.is_covered(index)) return false;
      for (ValueId result : draft_.op(index).results) {
        if (result == candidate_.output) continue;
        if (result == draft_.graph.output) return false;
        for (int reader : draft_.readers(result))
          if (!candidate_.operators.contains(reader)) return false;
      }
    }
    return true;
  }

  const Draft& draft_;
  const int softmax_;
  int product_ = -1, weighted_ = -1;
  Candidate candidate_;
};

/// Attention by heads: softmax of q k^T / sqrt(d), times v.
at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, int64_t heads, bool causal) {
  const auto by_heads = [&](const at::Tensor& x) {
    return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  };
  at::Tensor scores = at::matmul(by_heads(q), by_heads(k).transpose(2, 3)) / std::sqrt(double(q.size(2) / heads));
  if (causal)
    scores =
        scores.masked_fill(at::ones({q.size(1), k.size(1)}, at::TensorOptions().dtype(at::kBool)).triu(1), -INFINITY);
  return at::matmul(at::softmax(scores, -1), by_heads(v)).transpose(1, 2).reshape(q.sizes());
}

at::Tensor numbers(const Shape& sample, int64_t seed) {
  Shape sizes = sample;
  sizes.insert(sizes.begin(), kProbeBatch);
  int64_t count = 1;
  for (int64_t size : sizes) count *= size;
  return at::arange(count, at::TensorOptions().dtype(at::kDouble))
      .add_(double(seed) * 0.7)
      .mul_(1.618)
      .sin_()
      .view(sizes);
}

/// Runs a candidate's operators, and attention itself, on the same numbers. nullopt if the results differ.
std::optional<AttentionOptions> verify(const Draft& draft, const Candidate& c, bool fused) {
  std::map<ValueId, at::Tensor> layer_tensors, tensors;
  int64_t seed = 1;
  for (ValueId id : {c.queries, c.keys, c.values}) {
    if (layer_tensors.contains(id)) continue;
    const Form& form = *draft.form(id);
    layer_tensors[id] = numbers(form.sample, seed++);
    tensors[id] = as_value(layer_tensors[id], form, form.extents);
  }
  if (!run_operators(draft, {c.operators.begin(), c.operators.end()}, tensors)) return std::nullopt;
  const Form& output = *draft.form(c.output);
  const at::Tensor actual = as_layer_tensor(tensors.at(c.output), output, output.extents, kProbeBatch);
  at::Tensor q = layer_tensors[c.queries], k = layer_tensors[c.keys], v = layer_tensors[c.values];
  if (fused) {
    const auto parts = q.chunk(kFusedParts, -1);
    q = parts[0], k = parts[1], v = parts[2];
  }
  if (actual.sizes() != q.sizes() || k.sizes() != v.sizes()) return std::nullopt;
  for (bool causal : {false, true}) {
    if (causal && q.size(1) != k.size(1)) continue;
    if ((attend(q, k, v, c.heads, causal) - actual).abs().max().item<double>() < kSame)
      return AttentionOptions{.heads = c.heads, .causal = causal, .dropout = c.dropout, .fused = fused};
  }
  return std::nullopt;
}

}  // namespace

bool recognise_attention(Draft& draft, int index) {
  const Operator& op = draft.op(index);
  if (op.name != "aten::softmax" && op.name != "aten::_softmax") return false;
  const auto candidate = Search(draft, index).run();
  if (!candidate) return false;
  const int64_t width = draft.form(candidate->output)->sample.back();
  const ValueId q = candidate->queries, k = candidate->keys, v = candidate->values;
  const bool fused = q == k && k == v && draft.form(q)->sample.back() == kFusedParts * width;
  const bool separate = draft.form(q)->sample.back() == width && draft.form(k)->sample.back() == width &&
                        draft.form(v)->sample.back() == width;
  if (!fused && !separate) return false;
  // a fused layer takes its parts in a separate dim, which only a linear layer can return
  if (fused && (draft.value(q).producer < 0 || !is_linear(draft, draft.value(q).producer) || q == draft.graph.output))
    return false;
  for (int reader : draft.readers(q))
    if (fused && !candidate->operators.contains(reader)) return false;
  const auto options = verify(draft, *candidate, fused);
  if (!options) return false;
  const std::string name = draft.new_name(op, "attention");
  if (fused) draft.ask_for_parts(q, kFusedParts);
  draft.add({std::make_shared<const Attention>(name, *options),
             fused ? std::vector<ValueId>{q} : std::vector<ValueId>{q, k, v},
             candidate->output,
             {candidate->operators.begin(), candidate->operators.end()}});
  return true;
}

}  // namespace trireme::torchscript
