// A schedule: in which order the workers of a pipeline do the forward and backward work of the micro-batches. One generator per
// file; a generator is a pure function of the worker's place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class TaskKind {
  forward,
  backward,
  backward_input,   ///< gradients of the inputs only ...
  backward_weight,  ///< ... and of the weights, later
  update,           ///< of all the worker's weights, with the gradient of one batch
};

/// One entry of a worker's list for one step.
struct Task {
  TaskKind kind = TaskKind::forward;
  int chunk = 0;        ///< which of the worker's stages
  int micro_batch = 0;  ///< -1 for update
  int lag = 0;          ///< works on the batch of so many steps ago: schedules without flush repeat their list every step
  friend bool operator==(const Task&, const Task&) = default;
};

/// Where a worker stands in the pipeline.
struct PipelinePlace {
  int position = 0;      ///< 0: first
  int depth = 1;         ///< positions of the pipeline, p
  int chunks = 1;        ///< stages per worker, v: chunk c at position s is stage c * p + s
  int micro_batches = 1; ///< m
};

struct Schedule {
  std::string_view name;
  std::string_view summary;          ///< one line, with the source
  bool flushes = true;               ///< every batch is through before the next begins
  /// All tasks of one step, ending with the update (flush), or in a steady state with lags.
  std::vector<Task> (*tasks)(const PipelinePlace& place) = nullptr;
  /// Batch t is computed with version max(s, t - delay) of the weights, s the first batch after the pipeline was last empty
  /// (the start, an evaluation). Null: always the newest (delay 0).
  int (*delay)(const PipelinePlace& place, bool vertical_sync) = nullptr;
  /// Why a pipeline of this shape cannot run this schedule, and what to do: {"", ""} when it can. Only depth, chunks and
  /// micro_batches count.
  struct Misfit {
    std::string why, next;
  };
  Misfit (*misfit)(const PipelinePlace& place) = nullptr;
  bool splits_backward = false;      ///< uses backward_input and backward_weight
};

/// gpipe, 1f1b, interleaved, zero-bubble, pipedream, 2bw.
const std::vector<Schedule>& known_schedules();

/// Errors (user), naming `where`: unknown schedule, with the known ones.
const Schedule& find_schedule(std::string_view name, const std::string& where);

// One file each.
extern const Schedule kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubble, kPipedream, kTwoBufferedWeights;

}  // namespace trireme
