// A pipeline schedule: "fifo", GPipe with the backwards in the order of the forwards.
//
//   p = 3, m = 3    F0 F1 F2             B0 B1 B2
//                      F0 F1 F2       B0 B1 B2
//                         F0 F1 F2 B0 B1 B2
#include <trireme/schedule.h>

namespace {

using namespace trireme;

std::vector<Task> tasks_of(const PipelinePlace& place) {
  std::vector<Task> tasks;
  for (const TaskKind kind : {TaskKind::forward, TaskKind::backward})
    for (int k = 0; k < place.micro_batches; ++k) tasks.push_back({kind, 0, k});
  tasks.push_back({TaskKind::update, 0, -1});
  return tasks;
}

Schedule::Misfit misfit_of(const PipelinePlace& place) {
  if (place.chunks > 1) return {"fifo has one stage per worker", "leave out chunks"};
  return {};
}

const bool kRegistered = register_schedule({
    .name = "fifo",
    .description = "all forwards, then all backwards in the same order",
    .tasks = tasks_of,
    .misfit = misfit_of,
});

}  // namespace
