#include "report/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiment/replica_spec.h"

namespace trireme {

std::string significant(double value) {
  double size = std::abs(value);
  if (!std::isfinite(value)) return "not finite";
  int decimals = size == 0 || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string money_text(double amount) {
  if (!(amount > 0 && amount < 1)) return significant(amount);
  return fmt::format("{:.{}f}", amount, 2 - int(std::floor(std::log10(amount))));
}

std::string percent(double share) { return std::isfinite(share) ? fmt::format("{:.1f}", 100 * share) : "not finite"; }

std::string in_unit(double value, const Scale& scale) {
  return fmt::format("{} {}", significant(value / scale.size), scale.unit);
}

std::string time_text(double seconds) { return in_unit(seconds, scale_for(kTimes, seconds)); }

Value peak_memory(const RunResult& row) {
  if (row.memory.empty()) return std::nullopt;
  int64_t peak = 0;
  for (const MemoryUse& use : row.memory) peak = std::max(peak, use.peak);
  return static_cast<double>(peak);
}

Value samples_per_step(const RunResult& row) {
  if (row.batch) return double(*row.batch);
  if (row.curve.empty() || row.curve.front().step < 1) return std::nullopt;
  return double(row.curve.front().samples) / double(row.curve.front().step);  // before an epoch's last, shorter batch
}

Value training_seconds(const RunResult& row) {
  if (row.curve.empty() && row.evaluations.empty()) return std::nullopt;
  // Under an update policy an exchange may follow the last step.
  return std::max(row.curve.empty() ? 0 : row.curve.back().seconds,
                  row.evaluations.empty() ? 0 : row.evaluations.back().seconds);
}

bool under_policy(const RunResult& row) {
  return row.replicas || is_update_policy(row.strategy);  // a row that ended early may have no figures of replicas
}

bool under_policies(const std::vector<RunResult>& rows) { return std::any_of(rows.begin(), rows.end(), under_policy); }

}  // namespace trireme
