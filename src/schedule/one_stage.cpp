#include "schedule/one_stage.h"
#include "schedule/kinds.h"

#include <fmt/format.h>

namespace trireme {

Schedule::Misfit misfit_of_chunks(const PipelinePlace& place) {
  if (place.chunks == 1) return {};
  return {fmt::format("it runs one stage per worker, but the plan has {}", place.chunks),
          fmt::format("give every worker one stage or use schedule \"{}\"", kInterleaved.name)};
}

StepRule plain_step_rule(const PipelinePlace& place) {
  const double m = place.micro_batches;
  return {.fill_compute = 1, .fill_weight = 1, .main_compute = m - 1, .main_weight = m - 1, .least_weight = m};
}

}  // namespace trireme
