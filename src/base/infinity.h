// A bound that nothing reaches yet.
#pragma once

#include <limits>

namespace trireme {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace trireme
