// When a redistribution is an all-reduce, and among whom.
#pragma once

#include <vector>

#include "trireme/placement.h"

namespace trireme {

/// The workers, ascending, that hold the summands of `worker`'s value when nothing but Partial -> Replicate happens on
/// one mesh; empty when something else happens or nobody else has a summand.
std::vector<int> all_reduce_group(const Layout& from, const Layout& to, int worker);

}  // namespace trireme
