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
  double seconds = 0;  ///< of a step as the search computes it, without reductions and updates
  double bound = 0;    ///< lower bound on the seconds of all placements on this number of devices
  double alone = 0;    ///< of a step of one device with the same samples
};

/// Returns a plan whose replicas have `devices` devices each (at least 2). Returns nullopt if `devices` does not divide
/// the number of the cluster's devices, if the batch has fewer samples than there are replicas, or if the best
/// placement leaves a device without layers. Of the request only model, cluster, costs, batch and bytes_per_value are
/// used. All devices are treated as equal, and memory as unlimited.
std::optional<PlacedPlan> placed_plan(const PlanRequest& request, int devices);

/// Returns the plans of placed_plan with 2 to 8 devices per replica, without those that do not exist.
std::vector<PlacedPlan> placed_plans(const PlanRequest& request);

}  // namespace trireme
