// PipeDream (Narayanan et al., SOSP 2019): 1F1B without a flush and with weight stashing. Every mini-batch goes through
// the pipeline whole and has its own update. Position s does p - 1 - s forwards ahead once, at the start of training,
// and never drains:
//
//   p = 3     F0 F1 F2       B0 F3 B1 F4 B2 ...      a step of position 0:  forward t, backward and update t - 2
//                F0 F1    B0 F2 B1 F3 B2 F4 ...                 position 1:  forward t, backward and update t - 1
//                   F0 B0 F1 B1 F2 B2 F3 B3 ...                 position 2:  forward t, backward and update t
//
// Forward uses the newest weights at its position, so mini-batch t uses version t - (p - 1 - s). Its backward uses the
// same version, so p - s versions are alive. With vertical sync, mini-batch t uses version t - (p - 1) at every
// position, and p versions are alive.
//
// This differs from the paper if a stage is replicated. There, mini-batches go to the replicas in turn (1F1B-RR). Here,
// all replicas share every mini-batch and reduce its gradient, as the replicas of every other schedule do.
#include <fmt/format.h>

#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

int ahead_of(const PipelinePlace& place) { return place.depth - 1 - place.position; }

std::vector<Task> tasks_of(const PipelinePlace& place) {
  const int ahead = ahead_of(place);
  return {{TaskKind::forward, 0, 0, 0}, {TaskKind::backward, 0, 0, ahead}, {TaskKind::update, 0, -1, ahead}};
}

int delay_of(const PipelinePlace& place, bool vertical_sync) {
  return vertical_sync ? place.depth - 1 : ahead_of(place);
}

Schedule::Misfit misfit_of(const PipelinePlace& place) {
  if (place.micro_batches != 1)
    return {fmt::format("every mini-batch has its own update and is not cut, but the plan has {} micro-batches",
                        place.micro_batches),
            fmt::format("use 1 micro-batch, or schedule \"{}\", which has one update for all of them",
                        kTwoBufferedWeights.name)};
  return misfit_of_chunks(place);
}

}  // namespace

constinit const Schedule kPipedream = {
    .name = "pipedream",
    .description = "1f1b without a flush, on stashed weights (Narayanan et al., SOSP 2019)",
    .flushes = false,
    .whole_batches = true,
    .has_vertical_sync = true,
    .tasks = tasks_of,
    .delay = delay_of,
    .misfit = misfit_of,
};

}  // namespace trireme
