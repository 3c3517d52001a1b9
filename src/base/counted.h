// Counts with their unit, for messages and tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// "1 step", "2 steps". `plural`: for a unit whose plural is not the unit and "s": counted(2, "process", "processes").
inline std::string counted(int64_t n, std::string_view unit, std::string_view plural = "") {
  std::string text = std::to_string(n) + " ";
  if (n == 1) return text.append(unit);
  return plural.empty() ? text.append(unit) + "s" : text.append(plural);
}

}  // namespace trireme
