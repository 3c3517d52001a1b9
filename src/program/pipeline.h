// The structure of the pipeline: groups of workers, the stages that each holds, its position in the schedule.
#pragma once

#include <string>
#include <vector>

#include "trireme/model.h"
#include "trireme/plan.h"
#include "trireme/schedule.h"

namespace trireme {

/// Workers that hold the same stages.
struct WorkerGroup {
  std::vector<int> workers;  ///< world ranks, ascending
  std::vector<int> stages;   ///< ascending; chunk c of the group is stages[c]
  PipelinePlace place;
};

/// Groups a plan's workers. Stages that need each other's results within one micro-batch (branches of one block on
/// different workers) share a position and run through the schedule together. Otherwise a stage's position is the
/// length of the longest path to it from a first stage. With several stages per worker, positions number the groups by
/// their first stage. Throws a user error that names `where` for a schedule that does not fit the stages, chunks or
/// micro-batches.
std::vector<WorkerGroup> worker_groups(const Model& model, const Plan& plan, const std::string& where);

}  // namespace trireme
