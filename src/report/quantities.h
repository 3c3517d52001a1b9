// Quantities of rows, and how tables and sentences format them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "metrics/result.h"

namespace trireme {

using Value = std::optional<double>;  ///< nullopt if it was not measured

struct Scale {
  const char* unit;
  double size;
};

constexpr double kMinutesFrom = 600;  ///< seconds
constexpr Scale kTimes[] = {{"µs", 1e-6}, {"ms", 1e-3}, {"s", 1.0}, {"min", kMinutesFrom}};
constexpr Scale kBytes[] = {{"B", 1.0}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}};

/// Returns the largest unit of which `largest` contains at least one (minutes: at least ten).
template <size_t n>
Scale scale_for(const Scale (&scales)[n], double largest) {
  Scale best = scales[0];
  for (const Scale& scale : scales)
    if (largest >= scale.size) best = scale;
  if (best.size == kMinutesFrom) best.size = 60;
  return best;
}

std::string significant(double value);                  ///< "0.12", "9.99", "10.0", "1234", "not finite"
std::string money_text(double amount);                  ///< "12.3", "0.0000123": an epoch may cost that little
std::string percent(double share);                      ///< "98.7"
std::string in_unit(double value, const Scale& scale);  ///< "9.2 ms" from seconds
std::string time_text(double seconds);                  ///< in the unit that suits it: "9.2 ms"

Value peak_memory(const RunResult& row);       ///< bytes, of the device that needs most
Value samples_per_step(const RunResult& row);  ///< the global batch; of all replicas
Value training_seconds(const RunResult& row);  ///< of the whole run, without evaluations
bool under_policy(const RunResult& row);
bool under_policies(const std::vector<RunResult>& rows);  ///< true if any row is under an update policy

}  // namespace trireme
