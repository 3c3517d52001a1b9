#include "model/import/split_rules.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace trireme::torchscript {
namespace {

using Parts = std::optional<std::vector<int>>;
using Arguments = std::span<const Extent>;

const std::set<std::string_view> kElementwise{
    "aten::relu",        "aten::relu6",       "aten::hardtanh",    "aten::silu",        "aten::gelu",
    "aten::sigmoid",     "aten::tanh",        "aten::hardswish",   "aten::hardsigmoid", "aten::leaky_relu",
    "aten::elu",         "aten::selu",        "aten::celu",        "aten::softplus",    "aten::mish",
    "aten::log_sigmoid", "aten::hardshrink",  "aten::softshrink",  "aten::threshold",   "aten::abs",
    "aten::neg",         "aten::exp",         "aten::expm1",       "aten::log",         "aten::log1p",
    "aten::log2",        "aten::sqrt",        "aten::rsqrt",       "aten::square",      "aten::pow",
    "aten::sin",         "aten::cos",         "aten::erf",         "aten::reciprocal",  "aten::sign",
    "aten::clamp",       "aten::clamp_min",   "aten::clamp_max",   "aten::add",         "aten::sub",
    "aten::rsub",        "aten::mul",         "aten::div",         "aten::true_divide", "aten::maximum",
    "aten::minimum",     "aten::eq",          "aten::ne",          "aten::lt",          "aten::le",
    "aten::gt",          "aten::ge",          "aten::logical_and", "aten::logical_or",  "aten::logical_not",
    "aten::bitwise_not", "aten::bitwise_and", "aten::where",       "aten::masked_fill", "aten::lerp",
    "aten::addcmul",     "aten::addcdiv",     "aten::to"};
/// The result has the argument's elements in the same order.
const std::set<std::string_view> kReshapes{"aten::view",      "aten::reshape",   "aten::_unsafe_view",
                                           "aten::flatten",   "aten::unflatten", "aten::squeeze",
                                           "aten::unsqueeze", "aten::view_as",   "aten::reshape_as"};
const std::set<std::string_view> kReorderings{"aten::permute", "aten::transpose", "aten::t",
                                              "aten::numpy_T", "aten::movedim",   "aten::swapaxes"};

int normalised(int64_t dim, int dims) { return int(dim < 0 ? dim + dims : dim); }

std::optional<int> int_of(const Operator& op, std::string_view name, int dims) {
  const Argument* argument = op.find(name);
  if (argument == nullptr || !argument->constant.isInt()) return std::nullopt;
  return normalised(argument->constant.toInt(), dims);
}

/// Returns the dims in a list argument; nullopt if the argument is not a constant list.
std::optional<std::vector<int>> dims_of(const Operator& op, std::string_view name, int dims) {
  const Argument* argument = op.find(name);
  if (argument == nullptr) return std::nullopt;
  std::vector<int> result;
  if (argument->constant.isInt()) return std::vector<int>{normalised(argument->constant.toInt(), dims)};
  if (!argument->constant.isIntList()) return std::nullopt;
  for (int64_t dim : argument->constant.toIntVector()) result.push_back(normalised(dim, dims));
  return result;
}

bool contains(const std::vector<int>& values, int value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// `part` of the first argument, and the whole of the others.
Parts first(Arguments arguments, int part) {
  std::vector<int> parts(arguments.size(), kWhole);
  parts.at(0) = part;
  return parts;
}

/// The part of one argument that broadcasting reads. nullopt if the dims do not match.
std::optional<int> broadcast_part(const Extent& argument, const Extent& result, int dim) {
  const int own = dim - (result.dims() - argument.dims());
  if (own < 0) return kWhole;
  if (dim == result.batch_dim) {
    if (argument.batch_dim == own && argument.fold == result.fold) return own;
    return argument.sizes[size_t(own)] == 1 ? std::optional(kWhole) : std::nullopt;
  }
  if (own == argument.batch_dim) return std::nullopt;
  if (argument.sizes[size_t(own)] == result.sizes[size_t(dim)]) return own;
  return argument.sizes[size_t(own)] == 1 ? std::optional(kWhole) : std::nullopt;
}

Parts elementwise(const Operator&, Arguments arguments, const Extent& result, int dim) {
  std::vector<int> parts;
  for (const Extent& argument : arguments) {
    const auto part = broadcast_part(argument, result, dim);
    if (!part) return std::nullopt;
    parts.push_back(*part);
  }
  return parts;
}

/// Returns the sizes with a separate dim for the part folded into the batch dim.
Shape unfolded(const Extent& extent) {
  Shape sizes = extent.sizes;
  if (extent.batch_dim < 0) return sizes;
  sizes[size_t(extent.batch_dim)] = kProbeBatch;
  sizes.insert(sizes.begin() + extent.batch_dim + 1, extent.fold);
  return sizes;
}

/// Same elements, same order: a part along a dim corresponds to a part along the dim with the same number of elements
/// before it.
Parts reshape(const Operator&, Arguments arguments, const Extent& result, int dim) {
  const Extent& from = arguments[0];
  const Shape in = unfolded(from), out = unfolded(result);
  size_t at = size_t(dim);
  if (result.batch_dim >= 0 && dim >= result.batch_dim) ++at;
  int64_t before = 1;
  for (size_t d = 0; d < at; ++d) before *= out[d];
  int64_t product = 1;
  for (size_t d = 0; d < in.size(); ++d) {
    const bool is_batch = int(d) == from.batch_dim;
    if (product == before && in[d] > 1 && !is_batch) {
      const int own = from.batch_dim >= 0 && int(d) > from.batch_dim ? int(d) - 1 : int(d);
      return first(arguments, own);
    }
    product *= in[d];
  }
  return std::nullopt;
}

Parts transpose(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto a = int_of(op, "dim0", result.dims()), b = int_of(op, "dim1", result.dims());
  if (!a || !b) return std::nullopt;
  return first(arguments, dim == *a ? *b : dim == *b ? *a : dim);
}

Parts swap_last(const Operator&, Arguments arguments, const Extent& result, int dim) {
  return first(arguments, result.dims() == 2 ? 1 - dim : dim);
}

Parts permute(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto dims = dims_of(op, "dims", result.dims());
  if (!dims) return std::nullopt;
  return first(arguments, dims->at(size_t(dim)));
}

Parts expand(const Operator&, Arguments arguments, const Extent& result, int dim) {
  const auto part = broadcast_part(arguments[0], result, dim);
  if (!part) return std::nullopt;
  return first(arguments, *part);
}

/// Operators that mix elements along `dim` only.
Parts not_along_dim(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto mixed = int_of(op, "dim", result.dims());
  if (!mixed || *mixed == dim) return std::nullopt;
  return first(arguments, dim);
}

Parts not_along_dims(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto mixed = dims_of(op, "dims", result.dims());
  if (!mixed || mixed->empty() || contains(*mixed, dim)) return std::nullopt;
  return first(arguments, dim);
}

Parts without_dim(const Operator& op, Arguments arguments, const Extent&, int dim) {
  const auto gone = int_of(op, "dim", arguments[0].dims());
  if (!gone) return std::nullopt;
  return first(arguments, dim < *gone ? dim : dim + 1);
}

Parts reduce(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto gone = dims_of(op, "dim", arguments[0].dims());
  if (!gone || gone->empty()) return std::nullopt;
  if (result.dims() == arguments[0].dims()) return contains(*gone, dim) ? std::nullopt : first(arguments, dim);
  for (int own = 0, kept = 0; own < arguments[0].dims(); ++own)
    if (!contains(*gone, own) && kept++ == dim) return first(arguments, own);
  return std::nullopt;
}

Parts concatenate(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto joined = int_of(op, "dim", result.dims());
  if (!joined || *joined == dim) return std::nullopt;
  return std::vector<int>(arguments.size(), dim);
}

Parts stack(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const auto added = int_of(op, "dim", result.dims());
  if (!added || *added == dim) return std::nullopt;
  return std::vector<int>(arguments.size(), dim < *added ? dim : dim - 1);
}

Parts pad(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const Argument* amounts = op.find("pad");
  if (amounts == nullptr || !amounts->constant.isIntList()) return std::nullopt;
  const auto list = amounts->constant.toIntVector();
  const int from_end = result.dims() - 1 - dim;  // amounts start with the last dim
  const size_t at = 2 * size_t(from_end);
  if (at + 1 < list.size() && (list[at] != 0 || list[at + 1] != 0)) return std::nullopt;
  return first(arguments, dim);
}

Parts layer_norm(const Operator& op, Arguments arguments, const Extent& result, int dim) {
  const Argument* shape = op.find("normalized_shape");
  if (shape == nullptr || !shape->constant.isIntList()) return std::nullopt;
  return dim < result.dims() - int(shape->constant.toIntVector().size()) ? first(arguments, dim) : std::nullopt;
}

/// With running statistics the result depends on each element and its channel only.
Parts batch_norm(const Operator& op, Arguments arguments, const Extent&, int dim) {
  if (op.training_flag) return std::nullopt;
  std::vector<int> parts(arguments.size(), dim == 1 ? 0 : kWhole);
  parts[0] = dim;
  return parts;
}

Parts channel_weights(const Operator&, Arguments arguments, const Extent&, int dim) {
  const bool shared = arguments.back().sizes.empty() || arguments.back().sizes[0] == 1;
  return std::vector<int>{dim, dim == 1 && !shared ? 0 : kWhole};
}

Parts linear(const Operator&, Arguments arguments, const Extent& result, int dim) {
  if (dim < result.dims() - 1) return first(arguments, dim);
  std::vector<int> parts(arguments.size(), 0);
  parts[0] = kWhole;
  return parts;
}

Parts product(const Extent& a, const Extent& b, const Extent& result, int dim) {
  if (a.dims() < 2 || b.dims() < 2) return std::nullopt;
  if (dim == result.dims() - 1) return std::vector<int>{kWhole, b.dims() - 1};
  if (dim == result.dims() - 2) return std::vector<int>{a.dims() - 2, kWhole};
  const auto left = broadcast_part(a, result, dim), right = broadcast_part(b, result, dim);
  if (!left || !right) return std::nullopt;
  return std::vector<int>{*left, *right};
}

Parts matmul(const Operator&, Arguments arguments, const Extent& result, int dim) {
  return product(arguments[0], arguments[1], result, dim);
}

/// addmm, baddbmm: a summand plus a product.
Parts add_product(const Operator&, Arguments arguments, const Extent& result, int dim) {
  const auto summand = broadcast_part(arguments[0], result, dim);
  const auto factors = product(arguments[1], arguments[2], result, dim);
  if (!summand || !factors) return std::nullopt;
  return std::vector<int>{*summand, factors->at(0), factors->at(1)};
}

Parts embedding(const Operator&, Arguments arguments, const Extent& result, int dim) {
  if (dim == result.dims() - 1) return std::vector<int>{1, kWhole};
  return std::vector<int>{kWhole, dim};
}

/// table[indices], with one tensor of indices along the first dim.
Parts index(const Operator& op, Arguments arguments, const Extent&, int dim) {
  const Argument* indices = op.find("indices");
  if (arguments.size() != 2 || indices == nullptr || indices->items.size() != 1) return std::nullopt;
  const int looked_up = arguments[1].dims();
  return dim < looked_up ? std::vector<int>{kWhole, dim} : std::vector<int>{dim - looked_up + 1, kWhole};
}

/// slice_scatter: two tensors with equal shapes except along `dim`.
Parts slice_scatter(const Operator& op, Arguments, const Extent& result, int dim) {
  const auto cut = int_of(op, "dim", result.dims());
  if (!cut || *cut == dim) return std::nullopt;
  return std::vector<int>{dim, dim};
}

/// select_scatter: the second tensor has no `dim`.
Parts select_scatter(const Operator& op, Arguments, const Extent& result, int dim) {
  const auto cut = int_of(op, "dim", result.dims());
  if (!cut || *cut == dim) return std::nullopt;
  return std::vector<int>{dim, dim < *cut ? dim : dim - 1};
}

using Rule = Parts (*)(const Operator&, Arguments, const Extent&, int);

const std::map<std::string_view, Rule>& rules() {
  static const std::map<std::string_view, Rule> all = [] {
    std::map<std::string_view, Rule> table{{"aten::transpose", transpose},
                                           {"aten::swapaxes", transpose},
                                           {"aten::permute", permute},
                                           {"aten::t", swap_last},
                                           {"aten::expand", expand},
                                           {"aten::softmax", not_along_dim},
                                           {"aten::log_softmax", not_along_dim},
                                           {"aten::cumsum", not_along_dim},
                                           {"aten::slice", not_along_dim},
                                           {"aten::narrow", not_along_dim},
                                           {"aten::index_select", not_along_dim},
                                           {"aten::chunk", not_along_dim},
                                           {"aten::split", not_along_dim},
                                           {"aten::split_with_sizes", not_along_dim},
                                           {"aten::select", without_dim},
                                           {"aten::unbind", without_dim},
                                           {"aten::mean", reduce},
                                           {"aten::sum", reduce},
                                           {"aten::amax", reduce},
                                           {"aten::amin", reduce},
                                           {"aten::cat", concatenate},
                                           {"aten::stack", stack},
                                           {"aten::roll", not_along_dims},
                                           {"aten::flip", not_along_dims},
                                           {"aten::pad", pad},
                                           {"aten::constant_pad_nd", pad},
                                           {"aten::layer_norm", layer_norm},
                                           {"aten::batch_norm", batch_norm},
                                           {"aten::prelu", channel_weights},
                                           {"aten::linear", linear},
                                           {"aten::matmul", matmul},
                                           {"aten::bmm", matmul},
                                           {"aten::mm", matmul},
                                           {"aten::addmm", add_product},
                                           {"aten::baddbmm", add_product},
                                           {"aten::embedding", embedding},
                                           {"aten::index", index},
                                           {"aten::slice_scatter", slice_scatter},
                                           {"aten::select_scatter", select_scatter}};
    for (std::string_view name : kElementwise) table.emplace(name, elementwise);
    for (std::string_view name : kReshapes) table.emplace(name, reshape);
    return table;
  }();
  return all;
}

void collect_tensors(const Argument& argument, std::vector<const Argument*>& tensors) {
  if (argument.is_value() || argument.is_tensor()) tensors.push_back(&argument);
  for (const Argument& item : argument.items) collect_tensors(item, tensors);
}

}  // namespace

bool is_elementwise(std::string_view name) { return kElementwise.contains(name); }
bool is_reshape(std::string_view name) { return kReshapes.contains(name); }
bool moves_elements(std::string_view name) { return kReshapes.contains(name) || kReorderings.contains(name); }

std::vector<const Argument*> tensors_of(const Operator& op) {
  std::vector<const Argument*> tensors;
  for (const Argument& argument : op.arguments) collect_tensors(argument, tensors);
  return tensors;
}

std::optional<std::vector<int>> parts_needed(const Operator& op, std::span<const Extent> arguments,
                                             const Extent& result, int dim) {
  const auto rule = rules().find(op.name);
  if (rule == rules().end() || arguments.empty()) return std::nullopt;
  return rule->second(op, arguments, result, dim);
}

double operator_flops(const Operator& op, std::span<const Extent> arguments, const Extent& result) {
  const double elements = double(element_count(result.sizes)) / double(kProbeBatch);
  const auto times = [&](size_t argument, int from_end) {
    if (argument >= arguments.size() || arguments[argument].dims() < from_end) return elements;
    return 2 * elements * double(arguments[argument].sizes[size_t(arguments[argument].dims() - from_end)]);
  };
  if (op.name == "aten::linear" || op.name == "aten::matmul" || op.name == "aten::bmm" || op.name == "aten::mm")
    return times(0, 1);
  if (op.name == "aten::addmm" || op.name == "aten::baddbmm") return times(1, 1);
  const bool convolves = op.name.find("conv") != std::string::npos && arguments.size() >= 2 && arguments[1].dims() > 2;
  if (convolves) {
    const Shape& weight = arguments[1].sizes;
    return 2 * elements * double(std::accumulate(weight.begin() + 1, weight.end(), int64_t{1}, std::multiplies<>()));
  }
  return moves_elements(op.name) ? 0 : elements;
}

}  // namespace trireme::torchscript
