// The best plan for a model on a cluster under the step model (step_model.h), with a proof of optimality.
//
// Schedules, micro-batches, optimizer sharding and recompute are enumerated. The configuration with the least bound is
// always advanced by one step, until no bound is below the best plan (best-first search). A dynamic program over cut
// points (pipeline_search.h) chooses cuts and devices of stages. A dynamic program over the graph's live values
// (segment_search.h) chooses the mesh and split of each layer. If parameters are tied, the search runs once for each
// way to split them consistently.
#pragma once

#include "planner/exact/find_fastest.h"

namespace trireme {

/// Throws a user error for an empty space (unknown schedules, more micro-batches than samples). Single-threaded.
/// Deterministic, except for the time limit.
PlanAnswer find_plan(const PlanRequest& request);
/// The same, but does not compute the shortfall if no plan fits.
PlanAnswer search_plan(const PlanRequest& request);

}  // namespace trireme
