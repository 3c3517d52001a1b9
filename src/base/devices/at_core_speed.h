// Seconds at one speed of the cores (base/devices/core_speed.h) from seconds at another.
#pragma once

#include <cmath>

namespace trireme {

/// How much of a change of the cores' speed a step sees, as an exponent: an approximation, the same for all models. By
/// operator it was 0.7 to 0.9 for a convolution, 0.6 to 0.9 for an LSTM and a small product of matrices, 0.5 to 0.7 for
/// a large product; a copy did not see it (bench/core_sensitivity with an earlier form of the piece of work, on a
/// virtual machine with other users, an AMD EPYC).
inline constexpr double kCoreSensitivity = 0.8;

/// Returns what takes `seconds` while the piece of work takes `measured` seconds, while it takes `wanted` seconds.
inline double at_core_speed(double seconds, double measured, double wanted) {
  return seconds * std::pow(wanted / measured, kCoreSensitivity);
}

}  // namespace trireme
