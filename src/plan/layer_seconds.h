// What planning may ask about a model.
#pragma once

#include <vector>

namespace trireme {

/// Seconds of forward and backward per node, by node id.
using LayerSeconds = std::vector<double>;

}  // namespace trireme
