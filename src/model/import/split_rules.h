// Rules that state which operators can compute a part of their result from parts of their arguments, and from which
// parts.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/import/graph.h"

namespace trireme::torchscript {

/// A tensor that an operator reads or returns, as the rules see it: a value or a constant.
struct Extent {
  Shape sizes;         ///< with kProbeBatch samples
  int batch_dim = -1;  ///< of values that depend on data
  int64_t fold = 1;

  int dims() const { return int(sizes.size()); }
  /// Number of elements along a dim that can be divided among workers; for the batch dim: what is folded into it.
  int64_t divisible(int dim) const { return dim == batch_dim ? fold : sizes[size_t(dim)]; }
};

constexpr int kWhole = -1;  ///< in place of a dim: the whole tensor is needed

/// True for operators that work element by element, with broadcasting: relu, add, where, ...
bool is_elementwise(std::string_view name);
/// True for operators that only change the order or shape of elements: reshape, permute, ... Their first argument is
/// their only tensor argument.
bool moves_elements(std::string_view name);
/// True for those of them that keep the order of elements: given the result's sizes, they are a reshape.
bool is_reshape(std::string_view name);

/// For each tensor that `op` reads (in the order of tensors_of): the dim along which a worker's part must be cut so
/// that the operator computes the part of its result that is cut along `dim`; kWhole if the worker needs the whole
/// tensor. nullopt if that is impossible, or if there is no rule for the operator.
std::optional<std::vector<int>> parts_needed(const Operator& op, std::span<const Extent> arguments,
                                             const Extent& result, int dim);

/// Returns the arguments of an operator that are tensors (values and constants), in order, including those in lists.
std::vector<const Argument*> tensors_of(const Operator& op);

/// Returns the FLOPs of one sample: 2 per multiply-add. Operators that are not matrix products count one FLOP per
/// element of the result.
double operator_flops(const Operator& op, std::span<const Extent> arguments, const Extent& result);

}  // namespace trireme::torchscript
