// GPipe (Huang et al., NeurIPS 2019): every forward of the batch, then every backward in the reverse order, then one
// update.
//
//   p = 3, m = 3    F0 F1 F2             B2 B1 B0
//                      F0 F1 F2       B2 B1 B0
//                         F0 F1 F2 B2 B1 B0
//
// The time is (m + p - 1)(t_f + t_b), of which the share (p - 1)/(m + p - 1) is bubble. All m micro-batches are in
// flight between the last forward and the first backward.
#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

std::vector<Task> tasks_of(const PipelinePlace& place) {
  std::vector<Task> tasks;
  for (int chunk = 0; chunk < place.chunks; ++chunk)
    for (int k = 0; k < place.micro_batches; ++k) tasks.push_back({TaskKind::forward, chunk, k});
  for (size_t i = tasks.size(); i-- > 0;) tasks.push_back({TaskKind::backward, tasks[i].chunk, tasks[i].micro_batch});
  tasks.push_back({TaskKind::update, 0, -1});
  return tasks;
}

int in_flight_of(const PipelinePlace& place, int /*stages_left*/) { return place.micro_batches; }

Schedule::Misfit misfit_of(const PipelinePlace& /*any*/) { return {}; }

}  // namespace

constinit const Schedule kGpipe = {
    .name = "gpipe",
    .description = "all forwards, then all backwards (Huang et al., NeurIPS 2019)",
    .tasks = tasks_of,
    .misfit = misfit_of,
    .step_rule = plain_step_rule,
    .in_flight = in_flight_of,
};

}  // namespace trireme
