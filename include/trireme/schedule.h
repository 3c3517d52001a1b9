// A schedule: the order in which the workers of a pipeline do the forward and backward work of the micro-batches. Each
// schedule has one file. Its functions are pure functions of the worker's place in the pipeline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

enum class TaskKind {
  forward,
  backward,
  backward_input,   ///< computes the gradients of the inputs only
  backward_weight,  ///< computes the gradients of the weights, later
  update,           ///< updates all the worker's weights, with the gradient of one batch
};

/// One entry of a worker's list of tasks for one step.
struct Task {
  TaskKind kind = TaskKind::forward;
  int chunk = 0;        ///< index of the worker's stage
  int micro_batch = 0;  ///< -1 for update
  /// The task works on the batch of `lag` steps ago. Schedules without a flush repeat their list every step.
  int lag = 0;
  friend bool operator==(const Task&, const Task&) = default;
};

/// A worker's place in the pipeline.
struct PipelinePlace {
  int position = 0;       ///< 0: first
  int depth = 1;          ///< positions of the pipeline, p
  int chunks = 1;         ///< stages per worker, v; Schedule::stage_of() says which
  int micro_batches = 1;  ///< m
};

/// How often a stage does its work in one step, for the planner's closed step model. The work of one micro-batch has
/// two parts: c seconds for which other stages wait (forward, backward of the inputs, messages), and w seconds that
/// they do not wait for (backward of the weights; 0 unless the schedule splits backward). With u seconds of work done
/// once per step (exposed sums, the update):
///    step = sum over stages of (fill_compute * c + fill_weight * w)
///         + max over stages of (main_compute * c + main_weight * w + once * u).
struct StepRule {
  double fill_compute = 0, fill_weight = 0;
  double main_compute = 0, main_weight = 0;
  double once = 1;  ///< also the factor of what a worker holds for each of its stages
  /// A stage is busy for at least micro_batches * c + least_weight * w seconds. The planner skips plans whose bound is
  /// worse than the best plan found.
  double least_weight = 0;
};

/// Everything about a schedule. Unless they say otherwise, its functions read only depth, chunks and micro_batches of a
/// place.
struct Schedule {
  std::string_view name;           ///< in plans; also the strategy of a pipeline over all devices
  std::string_view description;    ///< one line, with the source
  bool flushes = true;             ///< every batch has finished before the next begins
  bool splits_backward = false;    ///< uses backward_input and backward_weight
  bool chunked = false;            ///< for several stages per worker
  bool v_shaped = false;           ///< the stages go through the workers and back, not from the first worker again
  bool whole_batches = false;      ///< every mini-batch is one micro-batch with its own update
  bool has_vertical_sync = false;  ///< Plan::vertical_sync has an effect
  /// Returns the tasks of one step. A schedule with a flush ends them with the update. A schedule without a flush
  /// returns the tasks of a step in the steady state, with lags. Also reads the position.
  std::vector<Task> (*tasks)(const PipelinePlace& place) = nullptr;
  /// Returns a delay: batch t is computed with version max(s, t - delay) of the weights, where s is the first batch
  /// after the pipeline was last empty (the start, an evaluation). Also reads the position. Null: always the newest
  /// version (delay 0).
  int (*delay)(const PipelinePlace& place, bool vertical_sync) = nullptr;
  /// Why a pipeline of this shape cannot run this schedule, and what to do. {"", ""}: it can.
  struct Misfit {
    std::string why, next;
  };
  Misfit (*misfit)(const PipelinePlace& place) = nullptr;
  /// Null: the planner has no formula, because batches overlap.
  StepRule (*step_rule)(const PipelinePlace& place) = nullptr;
  /// Returns the number of a stage's micro-batches that are between forward and backward. Set if there is a step rule.
  /// `stages_left`: stages from this one to the last, both included.
  int (*in_flight)(const PipelinePlace& place, int stages_left) = nullptr;

  /// Returns the position that holds the stage in a pipeline of this depth: stage modulo depth. If v_shaped, the stages
  /// are at positions 0 to depth-1, then depth-1 to 0, and so on.
  int position_of(int stage, int depth) const;
  /// Returns the stage that is chunk number `chunk` of the position.
  int stage_of(int chunk, int position, int depth) const;
  bool fits(const PipelinePlace& place) const { return !misfit || misfit(place).why.empty(); }
  /// True if backward is not split, each worker has one stage, and there is a step rule. All plain schedules take the
  /// same time.
  bool is_plain() const { return step_rule && !splits_backward && !chunked; }
};

/// Adds a schedule of your own to those that plans may name. `schedule` is copied; what its members point to must
/// outlive the program's use of Trireme. Call it by static initialisation, `static const bool registered =
/// register_schedule(kMine);`, or at the start of main; not thread-safe. Returns true. Errors (user): the list of
/// schedules has been read already. A name that exists is reported when the list is read.
bool register_schedule(const Schedule& schedule);

/// Returns the names of the schedules for which `has` is true (null: of all), built-in ones first.
std::vector<std::string> schedule_names(bool (*has)(const Schedule&) = nullptr);
/// The schedule of plans that name none.
const Schedule& usual_schedule();
/// Returns null if the name is unknown.
const Schedule* look_up_schedule(std::string_view name);

}  // namespace trireme
