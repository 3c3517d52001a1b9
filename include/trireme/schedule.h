// A schedule: in which order the workers of a pipeline do the forward and backward work of the micro-batches. One
// generator per file; a generator is a pure function of the worker's place.
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
  int lag = 0;  ///< works on the batch of so many steps ago: schedules without flush repeat their list every step
  friend bool operator==(const Task&, const Task&) = default;
};

/// Where a worker stands in the pipeline.
struct PipelinePlace {
  int position = 0;       ///< 0: first
  int depth = 1;          ///< positions of the pipeline, p
  int chunks = 1;         ///< stages per worker, v: chunk c at position s is stage c * p + s
  int micro_batches = 1;  ///< m
};

/// How often a stage does its work in one step, for the planner's closed step model (planner/exact/step_rule.h).
struct StepRule {
  double fill_compute = 0, fill_weight = 0;  ///< factors of what others wait for, and of the weights' part of backward
  double main_compute = 0, main_weight = 0;
  double once = 1;  ///< of what is done per step; and of what a worker holds for each of its stages
  double least_weight =
      0;  ///< a lower bound: weights' parts that a stage is busy with; of the rest it is micro_batches
};

/// Everything about a schedule. Functions that do not say otherwise look at depth, chunks and micro_batches of a place
/// only.
struct Schedule {
  std::string_view name;           ///< in plans, and as the strategy of a pipeline over all devices
  std::string_view description;    ///< one line, with the source
  bool flushes = true;             ///< every batch is through before the next begins
  bool splits_backward = false;    ///< uses backward_input and backward_weight
  bool chunked = false;            ///< is for several stages per worker
  bool whole_batches = false;      ///< every mini-batch is one micro-batch with an update of its own
  bool has_vertical_sync = false;  ///< Plan::vertical_sync makes a difference
  /// All tasks of one step, ending with the update (flush), or in a steady state with lags. By position too.
  std::vector<Task> (*tasks)(const PipelinePlace& place) = nullptr;
  /// Batch t is computed with version max(s, t - delay) of the weights, s the first batch after the pipeline was last
  /// empty (the start, an evaluation). By position too. Null: always the newest (delay 0).
  int (*delay)(const PipelinePlace& place, bool vertical_sync) = nullptr;
  /// Why a pipeline of this shape cannot run this schedule, and what to do: {"", ""} when it can.
  struct Misfit {
    std::string why, next;
  };
  Misfit (*misfit)(const PipelinePlace& place) = nullptr;
  /// Null: the planner has no formula, batches overlap.
  StepRule (*step_rule)(const PipelinePlace& place) = nullptr;
  /// Micro-batches of a stage between forward and backward, where there is a step rule. `stages_left`: from this one to
  /// the last, itself included.
  int (*in_flight)(const PipelinePlace& place, int stages_left) = nullptr;

  bool fits(const PipelinePlace& place) const { return !misfit || misfit(place).why.empty(); }
  /// Takes all forwards and backwards whole, each worker with one stage: those that are plain take the same time.
  bool is_plain() const { return step_rule && !splits_backward && !chunked; }
};

/// Adds a schedule of your own to those that plans may name. It must outlive the program's use of Trireme. By static
/// initialisation or at the start of main: `static const bool registered = register_schedule(kMine);`. Returns true.
/// Errors (user): the schedules have been listed already; when they are listed, also a name that exists.
bool register_schedule(const Schedule& schedule);

/// Names of all schedules that `has` is true of, built-in ones first.
std::vector<std::string> schedule_names(bool (*has)(const Schedule&) = nullptr);
/// Null: unknown.
const Schedule* look_up_schedule(std::string_view name);

}  // namespace trireme
