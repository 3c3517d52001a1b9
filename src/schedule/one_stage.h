// What most schedules ask of a pipeline: one stage per worker.
#pragma once

#include "schedule/schedule.h"

namespace trireme {

/// {"", ""} where every worker has one stage.
Schedule::Misfit misfit_of_chunks(const PipelinePlace& place);

}  // namespace trireme
