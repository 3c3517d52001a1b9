// Shared by the schedules with one stage per worker.
#pragma once

#include "trireme/schedule.h"

namespace trireme {

/// Returns {"", ""} if every worker has one stage.
Schedule::Misfit misfit_of_chunks(const PipelinePlace& place);

/// 1F1B with a split backward: position s does lead (p - 1 - s) forwards, then one forward and one backward of inputs
/// in turn. It does the backward of weights of micro-batch i after its backward of inputs of micro-batch i + lead s,
/// and the remaining ones at the end.
std::vector<Task> split_tasks(const PipelinePlace& place, int lead);

/// Rule for split_tasks, exact for equal stages with t_W <= t_F, t_W <= t_B: (m + p - 1)(t_F + t_B) + max(1, m - lead
/// (p - 1)) t_W plus the work done once per step.
StepRule split_step_rule(const PipelinePlace& place, int lead);

/// Rule for whole forwards and backwards with a flush. For equal stages: (m + p - 1) t plus the work done once per
/// step. (Alpa, OSDI 2022: sum t + (m - 1) max t.)
StepRule plain_step_rule(const PipelinePlace& place);

}  // namespace trireme
