// Seconds at one speed of the cores (base/devices/core_speed.h) from seconds at another.
#pragma once

#include <cmath>

namespace trireme {

/// The part of a change of the cores' speed that a step sees, as an exponent: an approximation. When the piece of work
/// takes 1.3 times as long, convolutions, LSTMs and small products of matrices take 1.3 times as long (exponent 0.9 to
/// 1.1), large products 1.17 times (0.6), and copies even less. Measured on a virtual machine whose cores are shared
/// with others, over pieces of a second, with PyTorch's operators.
inline constexpr double kCoreSensitivity = 0.8;

/// Returns what takes `seconds` while the piece of work takes `measured` seconds, while it takes `wanted` seconds.
inline double at_core_speed(double seconds, double measured, double wanted) {
  return seconds * std::pow(wanted / measured, kCoreSensitivity);
}

}  // namespace trireme
