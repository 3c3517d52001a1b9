// Detects redistributions that are an all-reduce, and returns the group.
#pragma once

#include <vector>

#include "trireme/placement.h"

namespace trireme {

/// Returns the workers, ascending, that hold the summands of `worker`'s value if the redistribution is only Partial ->
/// Replicate on one mesh. Empty if it is anything else, or if no other worker has a summand.
std::vector<int> all_reduce_group(const Layout& from, const Layout& to, int worker);

}  // namespace trireme
