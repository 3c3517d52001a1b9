// model + plan -> program.
#pragma once

#include <vector>

#include "program/compile_options.h"
#include "program/program.h"
#include "trireme/plan.h"

namespace trireme {

/// DDP's rule for sizes in bytes in the order in which they become ready: a group closes when it reaches its cap; the
/// first group has a smaller one, so that communication begins early. Returns the number of items of each group.
std::vector<int> group_sizes(const std::vector<int64_t>& bytes, int64_t cap, int64_t first_cap);

/// The plan must be validated. The result has passed the checker, unless that is not asked for. Errors (user): a
/// program that would deadlock, with its cycle; an unknown schedule, or one that does not fit the pipeline;
/// combinations that make no sense (powersgd with optimizer sharding, zero2 without flush); frozen names that the model
/// does not have.
Program compile(const Model& model, const Plan& plan, const CompileOptions& options);

}  // namespace trireme
