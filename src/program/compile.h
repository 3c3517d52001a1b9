// Compiles model + plan into a program.
#pragma once

#include <vector>

#include "program/compile_options.h"
#include "program/program.h"
#include "trireme/plan.h"

namespace trireme {

/// PyTorch DDP's rule for bucket sizes. `bytes` are in the order in which gradients become ready. A group closes when
/// it reaches its cap. The first group has a smaller cap, so that communication starts early. Returns the number of
/// items of each group.
std::vector<int> group_sizes(const std::vector<int64_t>& bytes, int64_t cap, int64_t first_cap);

/// Compiles a plan, which must be validated. The result has passed the checker, unless `options.checked` is false.
/// Throws a user error for a program that would deadlock (with its cycle), an unknown schedule or one that does not fit
/// the pipeline, invalid combinations (powersgd with optimizer sharding, zero2 without flush), and frozen names that
/// the model does not have.
Program compile(const Model& model, const Plan& plan, const CompileOptions& options);

}  // namespace trireme
