// What schedules with one stage per worker have in common.
#pragma once

#include "trireme/schedule.h"

namespace trireme {

/// {"", ""} where every worker has one stage.
Schedule::Misfit misfit_of_chunks(const PipelinePlace& place);

/// Whole forwards and backwards, a flush: for equal stages (m + p - 1) t and what is done once. (Alpa, OSDI 2022: sum t
/// + (m - 1) max t.)
StepRule plain_step_rule(const PipelinePlace& place);

}  // namespace trireme
