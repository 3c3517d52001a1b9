// What makes a layer compute what it computes, besides its kind, its parameters and the shapes of its inputs: strides,
// heads, switches. Layers that agree in all of these cost the same: profiles and planners look at equal layers once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace trireme {

using AttributeValue = std::variant<bool, int64_t, double, std::vector<int64_t>>;

/// By name; sizes of images are lists [height, width].
using Attributes = std::map<std::string, AttributeValue>;

}  // namespace trireme
