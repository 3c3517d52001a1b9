// Which operators can work on a part of their result from parts of their arguments, and which parts these are.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/import/graph.h"

namespace trireme::torchscript {

/// A tensor that an operator reads or gives, for a rule: a value or a constant.
struct Extent {
  Shape sizes;         ///< with kProbeBatch samples
  int batch_dim = -1;  ///< of data
  int64_t fold = 1;

  int dims() const { return int(sizes.size()); }
  /// Elements along a dim that can be divided: of the batch dim, what is folded into it.
  int64_t divisible(int dim) const { return dim == batch_dim ? fold : sizes[size_t(dim)]; }
};

constexpr int kWhole = -1;  ///< in place of a dim: the whole tensor is needed

/// Element by element, with broadcasting: relu, add, where, ...
bool is_elementwise(std::string_view name);
/// Operators that only put elements in another order or shape: reshape, permute, ... They have one tensor argument, the
/// first.
bool moves_elements(std::string_view name);
/// Those whose sizes are arguments: given the result's sizes, they are a reshape.
bool is_reshape(std::string_view name);

/// For each tensor that `op` reads (as tensors_of lists them): the dim along which a worker's part of it is to be cut
/// so that the operator gives the part of its result that is cut along `dim`; kWhole where the worker needs all of it.
/// Nothing where there is no such way, or no rule for the operator.
std::optional<std::vector<int>> parts_needed(const Operator& op, std::span<const Extent> arguments,
                                             const Extent& result, int dim);

/// The arguments of an operator that are tensors, in order, those in lists among them: values and constants.
std::vector<const Argument*> tensors_of(const Operator& op);

/// Multiply-adds of one sample, 2 FLOP each; one FLOP per element of the result for operators that do not multiply
/// matrices.
double operator_flops(const Operator& op, std::span<const Extent> arguments, const Extent& result);

}  // namespace trireme::torchscript
