#include "planner/exact/step_rule.h"

#include <algorithm>

namespace trireme {

bool knows_schedule(const std::string& schedule) {
  return schedule == "gpipe" || schedule == "1f1b" || schedule == "zero-bubble" || schedule == "interleaved";
}

StepRule step_rule(const std::string& schedule, const PipelineShape& shape) {
  const double p = shape.positions, v = shape.chunks, m = shape.micro_batches;
  if (schedule == "interleaved") return {.main_compute = v * m + p - 1, .main_weight = v * m + p - 1, .once = v};
  if (schedule == "zero-bubble") return {.fill_compute = 1, .main_compute = m - 1, .main_weight = std::max(1.0, m - p + 1)};
  return {.fill_compute = 1, .fill_weight = 1, .main_compute = m - 1, .main_weight = m - 1};
}

double in_flight(const std::string& schedule, const PipelineShape& shape, int stages_left) {
  const int m = shape.micro_batches, p = shape.positions, v = shape.chunks;
  if (schedule == "gpipe") return m;
  if (schedule == "1f1b") return std::min(m, stages_left);
  if (schedule == "zero-bubble") return std::min(m, p);
  const int position = (v * p - stages_left) % p;
  return m == p ? m * v : std::min(m * v, 2 * (p - 1 - position) + (v - 1) * p + 1);
}

}  // namespace trireme
