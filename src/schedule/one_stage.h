// Shared by the schedules with one stage per worker.
#pragma once

#include "trireme/schedule.h"

namespace trireme {

/// Returns {"", ""} if every worker has one stage.
Schedule::Misfit misfit_of_chunks(const PipelinePlace& place);

/// Rule for whole forwards and backwards with a flush. For equal stages: (m + p - 1) t plus the work done once per
/// step. (Alpa, OSDI 2022: sum t + (m - 1) max t.)
StepRule plain_step_rule(const PipelinePlace& place);

}  // namespace trireme
