// Compute times of a model's layers, as planning uses them.
#pragma once

#include <vector>

namespace trireme {

/// Seconds of forward plus backward of each node, by node id.
using LayerSeconds = std::vector<double>;

}  // namespace trireme
