// Integers that are transferred as doubles.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

namespace trireme {

inline constexpr double kLargestWhole = 9007199254740992;  // 2^53: up to here a double represents every integer exactly

/// Returns nullopt if `number` is a fraction, not finite, or beyond kLargestWhole in either direction.
inline std::optional<int64_t> to_whole(double number) {
  if (!(std::abs(number) <= kLargestWhole) || number != std::floor(number)) return std::nullopt;
  return int64_t(number);
}

}  // namespace trireme
