#include "metrics/result.h"

#include "base/devices/at_core_speed.h"

namespace trireme {

const char* name_of(RunStatus status) {
  switch (status) {
    case RunStatus::ok: return "ok";
    case RunStatus::failed: return "failed";
    case RunStatus::timed_out: return "timed out";
    case RunStatus::does_not_fit: return "does not fit";
    case RunStatus::skipped: return "skipped";
    case RunStatus::interrupted: return "interrupted";
  }
  return "unknown";
}

std::optional<double> step_beside_prediction(const RunResult& row) {
  if (!row.step_seconds) return std::nullopt;
  return row.replicas && row.step_seconds->mean ? row.step_seconds->mean : row.step_seconds->median;
}

std::optional<double> core_speed_of(const RunResult& row) {
  if (!row.core_seconds || !row.predicted || !row.predicted->core_seconds) return std::nullopt;
  return *row.predicted->core_seconds / *row.core_seconds;
}

std::optional<double> memory_speed_of(const RunResult& row) {
  if (!row.memory_speed || !row.predicted || !row.predicted->memory_speed) return std::nullopt;
  return *row.memory_speed / *row.predicted->memory_speed;
}

double prediction_at_core_speed(const RunResult& row) {
  return at_core_speed(row.predicted->step_seconds, core_speed_of(row).value_or(1), 1);
}

}  // namespace trireme
