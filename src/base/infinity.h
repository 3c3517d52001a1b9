// Infinity, as the initial value of a bound.
#pragma once

#include <limits>

namespace trireme {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace trireme
