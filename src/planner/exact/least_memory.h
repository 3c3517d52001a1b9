// Searches that ask the fastest-plan search again and again under other memory limits.
#pragma once

#include "planner/deadline.h"
#include "planner/exact/find_fastest.h"

namespace trireme {

/// The plan whose fullest device holds least, to a thousandth or the request's tolerance (that much `lower_bound` is
/// below), by bisection over a limit for all devices; of those with so little the fastest.
PlanAnswer find_smallest(const PlanRequest& request);

/// For a request that no plan fits: begins with the plans that are known. Its time limit is for this alone, half of it
/// for the plan that lacks least; where it ends the search, what is said is true, but less may do.
Shortfall explain_shortfall(const PlanRequest& request);

/// The same request with the time that is left.
PlanRequest within(const PlanRequest& request, const Deadline& deadline);

/// The same request about another cluster, which must outlive the result.
PlanRequest with_cluster(const PlanRequest& request, const Cluster& cluster);

}  // namespace trireme
