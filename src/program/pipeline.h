// Who works where in the pipeline: groups of workers, the stages that each holds, its place in the schedule.
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
  std::vector<int> stages;   ///< ascending: chunk c of the group is stages[c]
  PipelinePlace place;
};

/// Stages that need each other's results within one micro-batch (branches of one block on different workers) share a
/// position: they go through the schedule together. A stage's position is otherwise the longest way to it from a first
/// stage. With several stages per worker, positions count the groups in order of their first stage. Errors (user),
/// naming `where`: a schedule that does not fit the stages, chunks or micro-batches.
std::vector<WorkerGroup> worker_groups(const Model& model, const Plan& plan, const std::string& where);

}  // namespace trireme
