// PipeDream-2BW (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", ICML 2021): 1F1B without a flush,
// one update per batch of m micro-batches, and two versions of the weights. Every position computes
//
//   W(t + 1) = W(t) - rate * gradient(W(t - 1))
//
// If m >= p, the update of batch t - 2 has finished at every position when batch t begins, and that of batch t - 1 has
// not: the delay is 1. A pipeline of depth 1 would not need the delay. It has the delay too, so that the depth does not
// change the curve.
//
// In one step, position s does the m forwards of batch t. In turn with them it does the backwards, w = p - 1 - s
// behind. The first w of these backwards belong to batch t - 1; if w > 0, so does the update.
//
//   p = 3, m = 4    step t of position 0:  F0 B2' F1 B3' U' F2 B0 F3 B1       ': of batch t - 1
//                             position 1:  F0 B3' U' F1 B0 F2 B1 F3 B2
//                             position 2:  F0 B0 F1 B1 F2 B2 F3 B3 U
#include <fmt/format.h>

#include "schedule/kinds.h"
#include "schedule/one_stage.h"

namespace trireme {
namespace {

std::vector<Task> tasks_of(const PipelinePlace& place) {
  const int m = place.micro_batches;
  const int ahead = place.depth - 1 - place.position;
  std::vector<Task> tasks;
  for (int k = 0; k < m; ++k) {
    const int lag = k < ahead ? 1 : 0;
    const int done = k - ahead + lag * m;
    tasks.push_back({TaskKind::forward, 0, k, 0});
    tasks.push_back({TaskKind::backward, 0, done, lag});
    if (done == m - 1) tasks.push_back({TaskKind::update, 0, -1, lag});
  }
  return tasks;
}

int delay_of(const PipelinePlace& /*any*/, bool /*vertical_sync: always in effect*/) { return 1; }

Schedule::Misfit misfit_of(const PipelinePlace& place) {
  if (place.micro_batches < place.depth)
    return {
        fmt::format("{} micro-batches are fewer than the pipeline's depth {}, so two versions of the weights are not "
                    "enough",
                    place.micro_batches, place.depth),
        fmt::format("use at least {} micro-batches or schedule \"{}\"", place.depth, kOneForwardOneBackward.name)};
  return misfit_of_chunks(place);
}

}  // namespace

constinit const Schedule kTwoBufferedWeights = {
    .name = "2bw",
    .description = "1f1b without a flush, on two versions of the weights (Narayanan et al., ICML 2021)",
    .flushes = false,
    .tasks = tasks_of,
    .delay = delay_of,
    .misfit = misfit_of,
};

}  // namespace trireme
