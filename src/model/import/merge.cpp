#include "model/import/merge.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "model/import/split_rules.h"

namespace trireme::torchscript {
namespace {

constexpr double kSameSums = 1e-4;  // relative: the error of float32 sums of the same numbers in another order

[[noreturn]] void fail_batch(const ScriptFile& file, const Operator& op, const std::string& what) {
  fail_at(file.path, *op.node, what + " with the number of samples, but not in proportion to it",
          "every sample must be computed in the same way, for any number of samples");
}

/// Returns a if the sizes are 2 a and 3 a: a size in proportion to the number of samples.
std::optional<int64_t> proportion(int64_t probe, int64_t other) {
  if (probe % kProbeBatch != 0 || other % kOtherBatch != 0 || probe / kProbeBatch != other / kOtherBatch)
    return std::nullopt;
  return probe / kProbeBatch;
}

/// Returns the dim whose length is in proportion to the number of samples; -1 if no dim or several dims are.
int proportional_dim(const Shape& probe, const Shape& other) {
  if (probe.size() != other.size()) return -1;
  int found = -1;
  for (size_t d = 0; d < probe.size(); ++d) {
    if (probe[d] == other[d]) continue;
    if (found >= 0 || !proportion(probe[d], other[d])) return -1;
    found = int(d);
  }
  return found;
}

bool same_numbers(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() && at::equal(a, b);
}

/// Merges two constant tensors, one for each number of samples.
Argument compare_tensors(const ScriptFile& file, const Operator& op, const Argument& probe, const Argument& other) {
  const at::Tensor &a = probe.constant.toTensor(), &b = other.constant.toTensor();
  if (op.is_random || same_numbers(a, b)) return probe;
  const int dim = a.dim() == b.dim() ? proportional_dim(a.sizes().vec(), b.sizes().vec()) : -1;
  if (dim < 0) fail_batch(file, op, "takes a tensor that changes");
  Argument one = probe;
  one.repeat_dim = dim;
  one.constant = a.narrow(dim, 0, a.size(dim) / kProbeBatch).clone();
  if (!same_numbers(constant_tensor(one, kProbeBatch), a) || !same_numbers(constant_tensor(one, kOtherBatch), b))
    fail_batch(file, op, "takes a tensor that changes");
  return one;
}

Argument compare(const ScriptFile& file, const Operator& op, const Argument& probe, const Argument& other) {
  using Kind = Argument::Kind;
  if (probe.kind != other.kind || probe.value != other.value || probe.items.size() != other.items.size())
    fail_batch(file, op, "takes something that changes");
  if (probe.is_value()) return probe;
  Argument argument = probe;
  if (probe.kind == Kind::list) {
    for (size_t i = 0; i < probe.items.size(); ++i)
      argument.items[i] = compare(file, op, probe.items[i], other.items[i]);
    return argument;
  }
  const c10::IValue &a = probe.constant, &b = other.constant;
  if (a.isTensor() && b.isTensor()) return compare_tensors(file, op, probe, other);
  if (a.isInt() && b.isInt() && a.toInt() != b.toInt()) {
    const auto share = proportion(a.toInt(), b.toInt());
    if (!share) fail_batch(file, op, "takes a number that changes");
    argument.kind = Kind::batch;
    argument.constant = *share;
    return argument;
  }
  if (a.isIntList() && b.isIntList() && a.toIntVector() != b.toIntVector()) {
    const auto x = a.toIntVector(), y = b.toIntVector();
    if (x.size() != y.size()) fail_batch(file, op, "takes a list that changes");
    argument.kind = Kind::list;
    argument.constant = {};
    argument.item_type = c10::IntType::get();
    for (size_t i = 0; i < x.size(); ++i) {
      Argument one, two;
      one.constant = x[i];
      two.constant = y[i];
      argument.items.push_back(compare(file, op, one, two));
    }
    return argument;
  }
  if (a.isDouble() && b.isDouble() && a.toDouble() != b.toDouble()) fail_batch(file, op, "takes a number that changes");
  return argument;
}

/// True if the numbers of the first samples are equal in both runs, with the samples along dim `dim`.
bool same_first_samples(const std::vector<double>& probe, const std::vector<double>& other, int dim) {
  if (probe.empty() || other.empty()) return true;
  const auto at = size_t(2 * dim);
  return std::abs(probe[at] - other[at]) <= kSameSums * std::max(probe[at + 1], other[at + 1]);
}

/// The same if the samples are the inner part of the first dim. The sums for this case follow those of all dims.
bool has_inner_batch(const std::vector<double>& probe, const std::vector<double>& other, size_t dims) {
  return probe.size() > 2 * dims && other.size() > 2 * dims && same_first_samples(probe, other, int(dims));
}

/// Builds the merged graph by traversing both graphs from the output to the input.
class Merge {
 public:
  Merge(const ScriptFile& file, const Graph& training, const Graph& evaluation)
      : file_(file), training_(training), evaluation_(evaluation) {}

  Graph run() {
    result_.output = unite(training_.output, evaluation_.output);
    return std::move(result_);
  }

 private:
  const Operator* operator_of(const Graph& graph, ValueId id) const {
    const int producer = graph.value(id).producer;
    return producer < 0 ? nullptr : &graph.operators[size_t(producer)];
  }

  static bool drops(const Operator& op) {
    return op.name == kDropSamples || op.name == "aten::dropout" || op.name == "aten::feature_dropout" ||
           op.name == "aten::alpha_dropout" || op.name == "aten::feature_alpha_dropout";
  }

  ValueId unite(ValueId training, ValueId evaluation) {
    const auto known = united_.find({training, evaluation});
    if (known != united_.end()) return known->second;
    const ValueId id = unite_anew(training, evaluation);
    united_[{training, evaluation}] = id;
    return id;
  }

  ValueId unite_anew(ValueId training, ValueId evaluation) {
    const Operator *t = operator_of(training_, training), *e = operator_of(evaluation_, evaluation);
    if (t == nullptr && e == nullptr && training_.value(training).name == evaluation_.value(evaluation).name)
      return add_value(evaluation_.value(evaluation));
    const bool same = t && e && t->node == e->node && t->path == e->path && t->name == e->name;
    if (!same && t && drops(*t)) {  // evaluation has no such operator
      Operator op = *t;
      const ValueId input = unite(t->arguments[0].value, evaluation);
      op.arguments[0].value = input;
      Value value = result_.value(input);
      return add_operator(std::move(op), {value}).front();
    }
    if (!same)
      fail_at(file_.path, t ? *t->node : *e->node,
              "what is computed in training differs from what is computed in evaluation",
              "only batch norm and dropout may differ; write the rest so that both modes compute the same");
    return unite_operators(*t, *e)[size_t(training_.value(training).result)];
  }

  std::vector<ValueId> unite_operators(const Operator& t, const Operator& e) {
    Operator op = e;
    for (size_t i = 0; i < op.arguments.size(); ++i)
      op.arguments[i] = unite_arguments(t, op, i, t.arguments.at(i), e.arguments[i]);
    std::vector<Value> values;
    for (ValueId id : e.results) values.push_back(evaluation_.value(id));
    for (size_t i = 0; i < t.results.size(); ++i)
      check_internal(i < e.results.size(), "an operator gives as much in both modes");
    std::vector<ValueId> ids = add_operator(std::move(op), std::move(values));
    for (size_t i = 0; i < ids.size(); ++i) united_[{t.results[i], e.results[i]}] = ids[i];
    return ids;
  }

  Argument unite_arguments(const Operator& t, Operator& op, size_t index, const Argument& training,
                           const Argument& evaluation) {
    Argument argument = evaluation;
    if (training.kind != evaluation.kind || training.items.size() != evaluation.items.size()) fail_argument(t);
    if (evaluation.is_value()) {
      argument.value = unite(training.value, evaluation.value);
      return argument;
    }
    for (size_t i = 0; i < argument.items.size(); ++i)
      argument.items[i] = unite_arguments(t, op, index, training.items[i], evaluation.items[i]);
    const std::string& name = op.argument_names[index];
    const bool is_flag =
        (name == "training" || name == "train" || name == "use_input_stats") && evaluation.constant.isBool();
    if (is_flag) {
      op.training_flag = training.constant.toBool();
      return argument;
    }
    const c10::IValue &a = training.constant, &b = evaluation.constant;
    const bool both_tensors = a.isTensor() && b.isTensor();
    if (both_tensors ? !same_numbers(a.toTensor(), b.toTensor()) && training.attribute.empty()
                     : !a.isTensor() && !b.isTensor() && a != b)
      fail_argument(t);
    return argument;
  }

  [[noreturn]] void fail_argument(const Operator& op) const {
    fail_at(file_.path, *op.node, "takes different numbers in training and in evaluation",
            "only batch norm and dropout may depend on the mode");
  }

  ValueId add_value(Value value) {
    result_.values.push_back(std::move(value));
    return ValueId(result_.values.size()) - 1;
  }

  std::vector<ValueId> add_operator(Operator op, std::vector<Value> values) {
    if (op.is_random)
      fail_at(
          file_.path, *op.node, "draws random numbers",
          "only dropout and stochastic depth may draw random numbers: Trireme draws the same ones under every plan");
    op.results.clear();
    for (Value& value : values) {
      value.kind = Value::Kind::result;
      value.producer = int(result_.operators.size());
      value.result = int(op.results.size());
      op.results.push_back(add_value(std::move(value)));
    }
    result_.operators.push_back(std::move(op));
    return result_.operators.back().results;
  }

  const ScriptFile& file_;
  const Graph &training_, &evaluation_;
  Graph result_;
  std::map<std::pair<ValueId, ValueId>, ValueId> united_;
};

/// If the value is a Bernoulli mask divided by its probability of 1: that probability. Else nullopt.
std::optional<double> keep_chance(const Graph& graph, ValueId id) {
  const int producer = graph.value(id).producer;
  if (producer < 0) return std::nullopt;
  const Operator& division = graph.operators[size_t(producer)];
  if (division.name != "aten::div" || division.arguments.size() < 2 || !division.arguments[0].is_value())
    return std::nullopt;
  const c10::IValue& divisor = division.arguments[1].constant;
  const int drawn = graph.value(division.arguments[0].value).producer;
  if (drawn < 0 || !divisor.isDouble()) return std::nullopt;
  const Operator& bernoulli = graph.operators[size_t(drawn)];
  const Argument* chance = bernoulli.find("p");
  if (!bernoulli.name.starts_with("aten::bernoulli") || chance == nullptr || !chance->constant.isDouble())
    return std::nullopt;
  if (chance->constant.toDouble() != divisor.toDouble()) return std::nullopt;
  return chance->constant.toDouble();
}

/// Returns the number of a sample's dims, from the first one on, that a mask has. nullopt if the mask is not one number
/// per sample or per such part.
std::optional<int64_t> mask_dims(const Value& mask, const Value& value) {
  if (mask.batch_dim != 0 || mask.fold != 1 || value.batch_dim != 0 || value.fold != 1 ||
      mask.sizes.size() != value.sizes.size())
    return std::nullopt;
  size_t dims = 0;
  while (dims + 1 < mask.sizes.size() && mask.sizes[dims + 1] == value.sizes[dims + 1]) ++dims;
  for (size_t d = dims + 1; d < mask.sizes.size(); ++d)
    if (mask.sizes[d] != 1) return std::nullopt;
  return int64_t(dims);
}

void find_dropped_samples(Graph& graph) {
  for (Operator& op : graph.operators) {
    if (op.name != "aten::mul" || op.arguments.size() < 2 || !op.arguments[0].is_value() || !op.arguments[1].is_value())
      continue;
    for (int m : {1, 0}) {
      const ValueId mask = op.arguments[size_t(m)].value, value = op.arguments[size_t(1 - m)].value;
      const auto chance = keep_chance(graph, mask);
      if (!chance) continue;
      const auto dims = mask_dims(graph.value(mask), graph.value(value));
      if (!dims) continue;
      Argument data, probability, count;
      data.kind = Argument::Kind::value;
      data.value = value;
      probability.constant = 1 - *chance;
      count.constant = *dims;
      op.name = kDropSamples;
      op.arguments = {data, probability, count};
      op.argument_names = {"input", "p", "dims"};
      break;
    }
  }
}

}  // namespace

Graph compare_batches(const ScriptFile& file, const Tape& probe, const Tape& other) {
  Graph graph = probe.graph;
  const auto &a = probe.graph.operators, &b = other.graph.operators;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const bool same =
        i < a.size() && i < b.size() && a[i].node == b[i].node && a[i].path == b[i].path && a[i].name == b[i].name;
    if (!same) fail_batch(file, i < a.size() ? a[i] : b[i], "what runs here changes");
    for (size_t k = 0; k < a[i].arguments.size(); ++k)
      graph.operators[i].arguments[k] = compare(file, a[i], a[i].arguments[k], b[i].arguments.at(k));
  }
  check_internal(probe.graph.values.size() == other.graph.values.size() && probe.graph.output == other.graph.output,
                 "runs of the same operators have the same values");
  for (size_t v = 0; v < graph.values.size(); ++v) {
    Value& value = graph.values[v];
    const int dim = proportional_dim(value.sizes, other.graph.values[v].sizes);
    if (dim < 0) continue;
    if (same_first_samples(probe.signatures[v], other.signatures[v], dim)) value.batch_dim = dim;
    else
      value.batch_is_inner = dim == 0 && has_inner_batch(probe.signatures[v], other.signatures[v], value.sizes.size());
    if (value.batch_dim >= 0 || value.batch_is_inner) value.fold = value.sizes[size_t(dim)] / kProbeBatch;
  }
  return graph;
}

Graph merge_modes(const ScriptFile& file, Graph training, const Graph& evaluation) {
  find_dropped_samples(training);
  return Merge(file, training, evaluation).run();
}

namespace {

/// True if an operator processes each row of the last dim separately, so that the number of dims before it does not
/// matter.
bool works_on_rows(const Operator& op, const std::function<bool(ValueId)>& is_inner, const Graph& graph) {
  static const std::set<std::string_view> by_row{"aten::linear", "aten::layer_norm", "aten::dropout"};
  if (!by_row.contains(op.name) && !is_elementwise(op.name)) return false;
  const auto fits = [&](const Argument& argument) {
    if (argument.is_value())
      return is_inner(argument.value) || graph.value(argument.value).sizes.size() <= 1 || op.name == "aten::linear";
    return !argument.is_tensor() || !argument.constant.toTensor().defined() || argument.constant.toTensor().dim() <= 1;
  };
  return !op.arguments.empty() && op.arguments[0].is_value() && is_inner(op.arguments[0].value) &&
         std::all_of(op.arguments.begin(), op.arguments.end(), fits) &&
         std::all_of(op.results.begin(), op.results.end(), is_inner);
}

}  // namespace

Graph unfold_inner_batches(const ScriptFile& file, Graph graph) {
  std::vector<bool> inner;
  for (const Value& value : graph.values) inner.push_back(value.batch_is_inner);
  const auto is_inner = [&](ValueId id) { return bool(inner[size_t(id)]); };
  for (const Operator& op : graph.operators) {
    bool any = std::any_of(op.results.begin(), op.results.end(), is_inner);
    for (const Argument& argument : op.arguments)
      for_each_value(argument, [&](ValueId id) { any = any || is_inner(id); });
    if (any && !is_reshape(op.name) && !works_on_rows(op, is_inner, graph))
      fail_at(file.path, *op.node, "works on samples that are the inner part of a folded dim",
              "fold only dims of one sample, or keep the batch as a separate dim");
  }
  for (Value& value : graph.values) {
    if (!value.batch_is_inner) continue;
    value.sizes[0] = value.fold;
    value.sizes.insert(value.sizes.begin() + 1, kProbeBatch);
    value.batch_dim = 1;
    value.fold = 1;
    value.batch_is_inner = false;
  }
  return graph;
}

namespace {

/// True if an operator returns its first argument unchanged.
bool is_idle(const Graph& graph, const Operator& op) {
  static const std::set<std::string_view> copies{"aten::contiguous", "aten::clone", "aten::alias", "aten::lift_fresh",
                                                 "aten::lift"};
  static const std::set<std::string_view> casts{"aten::to",      "aten::type_as",   "aten::_to_copy",
                                                "aten::expand",  "aten::expand_as", "aten::view",
                                                "aten::reshape", "aten::flatten",   "aten::view_as"};
  static const std::set<std::string_view> dropouts{"aten::dropout", "aten::feature_dropout", "aten::alpha_dropout",
                                                   "aten::feature_alpha_dropout", kDropSamples};
  if (op.arguments.empty() || !op.arguments[0].is_value() || op.results.size() != 1) return false;
  const Value &from = graph.value(op.arguments[0].value), &to = graph.value(op.result());
  if (copies.contains(op.name)) return true;
  if (casts.contains(op.name)) return from.sizes == to.sizes && from.dtype == to.dtype;
  if (op.name == "aten::slice") {
    const Argument* step = op.find("step");
    return from.sizes == to.sizes && (step == nullptr || (step->constant.isInt() && step->constant.toInt() == 1));
  }
  if (!dropouts.contains(op.name)) return false;
  const Argument* chance = op.find("p");
  return !op.training_flag || (chance != nullptr && chance->constant.isDouble() && chance->constant.toDouble() == 0);
}

void replace_values(Argument& argument, const std::vector<ValueId>& by) {
  if (argument.is_value()) argument.value = by[size_t(argument.value)];
  for (Argument& item : argument.items) replace_values(item, by);
}

}  // namespace

Graph without_idle_operators(const Graph& graph) {
  std::vector<ValueId> by(graph.values.size());
  for (size_t v = 0; v < by.size(); ++v) by[v] = ValueId(v);
  Graph result = graph;
  for (Operator& op : result.operators) {
    for (Argument& argument : op.arguments) replace_values(argument, by);
    if (is_idle(graph, op)) by[size_t(op.result())] = op.arguments[0].value;
  }
  result.output = by[size_t(result.output)];
  std::vector<Operator> kept;
  for (Operator& op : result.operators) {
    const bool idle = !op.results.empty() && by[size_t(op.results[0])] != op.results[0];
    if (idle) continue;
    for (ValueId id : op.results) result.values[size_t(id)].producer = int(kept.size());
    kept.push_back(std::move(op));
  }
  result.operators = std::move(kept);
  return result;
}

}  // namespace trireme::torchscript
