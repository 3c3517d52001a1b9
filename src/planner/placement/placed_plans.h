// Plans in which the operators of each replica are placed on several devices (operator_placement.h), together with a
// data axis.
#pragma once

#include <optional>
#include <vector>

#include "planner/exact/request.h"
#include "planner/placement/operator_placement.h"
#include "trireme/plan.h"

namespace trireme {

struct PlacedPlan {
  Plan plan;
  int devices = 1;     ///< of a replica
  double seconds = 0;  ///< of a step, by the search: without reductions and updates
  double bound = 0;    ///< no placement on so many devices takes less
  double alone = 0;    ///< of a step of one device with the same samples
};

/// Returns the plan whose replicas have this many devices, from 2 on. nullopt: that does not divide the cluster's
/// devices, the batch has less than a sample for each replica, or the placement leaves a device without layers, because
/// nothing is gained by it. Of the request only model, cluster, costs, batch and bytes_per_value are used; devices are
/// taken as alike, and memory is not limited.
std::optional<PlacedPlan> placed_plan(const PlanRequest& request, int devices);

/// Returns those with 2 to 8 devices for a replica.
std::vector<PlacedPlan> placed_plans(const PlanRequest& request);

}  // namespace trireme
