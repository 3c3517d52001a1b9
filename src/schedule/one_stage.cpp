#include "schedule/one_stage.h"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/kinds.h"

namespace trireme {

Schedule::Misfit misfit_of_chunks(const PipelinePlace& place) {
  if (place.chunks == 1) return {};
  return {fmt::format("it runs one stage per worker, but the plan has {}", place.chunks),
          fmt::format("give every worker one stage or use schedule \"{}\"", kInterleaved.name)};
}

std::vector<Task> split_tasks(const PipelinePlace& place, int lead) {
  const int m = place.micro_batches;
  const int ahead = std::min(m, lead * (place.depth - 1 - place.position));
  const int behind = lead * place.position;
  std::vector<Task> tasks;
  for (int k = 0; k < ahead; ++k) tasks.push_back({TaskKind::forward, 0, k});
  for (int k = 0; k < m; ++k) {
    if (k + ahead < m) tasks.push_back({TaskKind::forward, 0, k + ahead});
    tasks.push_back({TaskKind::backward_input, 0, k});
    if (k >= behind) tasks.push_back({TaskKind::backward_weight, 0, k - behind});
  }
  for (int k = std::max(0, m - behind); k < m; ++k) tasks.push_back({TaskKind::backward_weight, 0, k});
  tasks.push_back({TaskKind::update, 0, -1});
  return tasks;
}

/// a is the part of a micro-batch's time for which other positions wait, and w is the rest. Fill: a; main: (m - 1) a +
/// max(1, m - lead (p - 1)) w + the work done once per step.
StepRule split_step_rule(const PipelinePlace& place, int lead) {
  const double m = place.micro_batches;
  const double weights = std::max(1.0, m - lead * (place.depth - 1));
  return {.fill_compute = 1, .main_compute = m - 1, .main_weight = weights, .least_weight = weights};
}

StepRule plain_step_rule(const PipelinePlace& place) {
  const double m = place.micro_batches;
  return {.fill_compute = 1, .fill_weight = 1, .main_compute = m - 1, .main_weight = m - 1, .least_weight = m};
}

}  // namespace trireme
