// 1F1B with a flush: PipeDream-Flush (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021),
// the non-interleaved schedule of Megatron-LM. Position s first does p - 1 - s forwards, then one forward and one
// backward in turn. It does as much work as under gpipe, in the same time (m + p - 1)(t_f + t_b), but with at most
// min(m, p - s) micro-batches in flight. A pipeline of depth 1 does F0 B0 F1 B1 ...: gradient accumulation.
#include <algorithm>

#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

std::vector<Task> tasks_of(const PipelinePlace& place) {
  const int m = place.micro_batches;
  const int ahead = std::min(m, place.depth - 1 - place.position);
  std::vector<Task> tasks;
  for (int k = 0; k < ahead; ++k) tasks.push_back({TaskKind::forward, 0, k});
  for (int k = 0; k < m; ++k) {
    if (k + ahead < m) tasks.push_back({TaskKind::forward, 0, k + ahead});
    tasks.push_back({TaskKind::backward, 0, k});
  }
  tasks.push_back({TaskKind::update, 0, -1});
  return tasks;
}

int in_flight_of(const PipelinePlace& place, int stages_left) { return std::min(place.micro_batches, stages_left); }

}  // namespace

constinit const Schedule kOneForwardOneBackward = {
    .name = "1f1b",
    .description = "one forward, one backward in turn, flushed every batch (Narayanan et al., ICML 2021)",
    .tasks = tasks_of,
    .misfit = misfit_of_chunks,
    .step_rule = plain_step_rule,
    .in_flight = in_flight_of,
};

}  // namespace trireme
