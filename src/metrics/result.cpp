#include "metrics/result.h"

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

}  // namespace trireme
