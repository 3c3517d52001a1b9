// Interleaved 1F1B (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021): each worker has v stages, p apart. Filling and draining the pipeline takes 1/v of the time:
// the share (p - 1)/(v m + p - 1) of the time is bubble, for v times the messages.
//
// A worker orders its v m forwards (and backwards) in groups of v p: p micro-batches through its first stage, the same
// p through its second, ...; backwards begin with the last stage. Before its first backward a worker does 2 (p - 1 - s)
// + (v - 1) p forwards, or all of them if m = p, as published.
#include <algorithm>

#include <fmt/format.h>

#include "schedule/kinds.h"

namespace trireme {
namespace {

/// Returns the `turn`-th forward or backward of a worker.
Task task_of(TaskKind kind, int turn, const PipelinePlace& place) {
  const int group = turn / (place.depth * place.chunks);
  const int in_group = turn % (place.depth * place.chunks);
  const int chunk = in_group / place.depth;
  return {kind, kind == TaskKind::forward ? chunk : place.chunks - 1 - chunk,
          group * place.depth + in_group % place.depth};
}

std::vector<Task> tasks_of(const PipelinePlace& place) {
  const int turns = place.micro_batches * place.chunks;
  const int ahead = place.micro_batches == place.depth
                        ? turns
                        : std::min(turns, 2 * (place.depth - 1 - place.position) + (place.chunks - 1) * place.depth);
  std::vector<Task> tasks;
  for (int i = 0; i < ahead; ++i) tasks.push_back(task_of(TaskKind::forward, i, place));
  for (int i = 0; i < turns; ++i) {
    if (i + ahead < turns) tasks.push_back(task_of(TaskKind::forward, i + ahead, place));
    tasks.push_back(task_of(TaskKind::backward, i, place));
  }
  tasks.push_back({TaskKind::update, 0, -1});
  return tasks;
}

Schedule::Misfit misfit_of(const PipelinePlace& place) {
  const int m = place.micro_batches, p = place.depth;
  if (place.chunks < 2)
    return {"it needs at least two stages per worker",
            fmt::format("with one stage per worker use schedule \"{}\"", kOneForwardOneBackward.name)};
  if (m % p != 0) {
    const int below = m / p * p, above = below + p;
    return {fmt::format("{} micro-batches are not a multiple of the pipeline's depth {}", m, p),
            below == 0 ? fmt::format("use {} micro-batches", above)
                       : fmt::format("use {} or {} micro-batches", below, above)};
  }
  return {};
}

/// No fill; main: (v m + p - 1) t + v times the once-per-step work of one stage. The rule treats all stages of a worker
/// as equal to the given one.
StepRule step_rule_of(const PipelinePlace& place) {
  const double p = place.depth, v = place.chunks, m = place.micro_batches;
  return {.main_compute = v * m + p - 1, .main_weight = v * m + p - 1, .once = v, .least_weight = m};
}

int in_flight_of(const PipelinePlace& place, int stages_left) {
  const int m = place.micro_batches, p = place.depth, v = place.chunks;
  const int position = (v * p - stages_left) % p;
  return m == p ? m * v : std::min(m * v, 2 * (p - 1 - position) + (v - 1) * p + 1);
}

}  // namespace

constinit const Schedule kInterleaved = {
    .name = "interleaved",
    .description = "1f1b over several stages per worker, flushed every batch (Narayanan et al., SC 2021)",
    .chunked = true,
    .tasks = tasks_of,
    .misfit = misfit_of,
    .step_rule = step_rule_of,
    .in_flight = in_flight_of,
};

}  // namespace trireme
