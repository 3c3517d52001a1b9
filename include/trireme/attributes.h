// Everything besides kind, parameters and input shapes that determines what a layer computes: strides, heads, switches.
// Layers that agree in all of these have the same cost, so profiles and planners treat equal layers once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace trireme {

using AttributeValue = std::variant<bool, int64_t, double, std::vector<int64_t>>;

/// Attributes by name. Image sizes are lists [height, width].
using Attributes = std::map<std::string, AttributeValue>;

}  // namespace trireme
