// The best plan for a model on a cluster under the step model (step_model.h), and the proof that it is.
//
// Schedules, micro-batches, optimizer sharding and recompute are enumerated: of these configurations the one with the
// least bound is always taken a step further, until no bound is below the best plan. Cuts and devices of stages come
// from a dynamic program over cuts (pipeline_search.h), the division of every layer from one over the graph's live
// values (segment_search.h). Where parameters are tied it is asked once for every way to cut them alike.
#pragma once

#include "planner/exact/find_fastest.h"

namespace trireme {

/// Errors (user): an empty space (unknown schedules, more micro-batches than samples). One thread; deterministic but
/// for a time limit.
PlanAnswer find_plan(const PlanRequest& request);
/// The same, but does not look for what is missing where no plan fits.
PlanAnswer search_plan(const PlanRequest& request);

}  // namespace trireme
