// Searches that repeat the search for the fastest plan under changing memory limits.
#pragma once

#include "planner/deadline.h"
#include "planner/exact/find_fastest.h"

namespace trireme {

/// Finds the plan whose fullest device needs the least memory, to a thousandth or the request's tolerance
/// (`lower_bound` is that much lower), by bisection over a limit for all devices. Among plans with that memory, returns
/// the fastest.
PlanAnswer find_smallest(const PlanRequest& request);

/// For a request that no plan fits. Starts with the known plans. The request's time limit is for this function alone;
/// half of it is for the plan with the least shortfall. If the time limit ends the search, the answer is valid, but a
/// smaller change may suffice.
Shortfall explain_shortfall(const PlanRequest& request);

/// The same request with the remaining time as time limit.
PlanRequest within(const PlanRequest& request, const Deadline& deadline);

/// The same request for another cluster, which must outlive the result.
PlanRequest with_cluster(const PlanRequest& request, const Cluster& cluster);

}  // namespace trireme
