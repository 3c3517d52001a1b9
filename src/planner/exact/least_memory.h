// Searches that ask the fastest-plan search again and again under other memory limits.
#pragma once

#include <limits>

#include "planner/exact/find_plan.h"

namespace trireme {

/// The fastest plan, of those faster than `cutoff` seconds. `any`: the first that is found will do.
PlanAnswer find_fastest(const PlanRequest& request, double cutoff = std::numeric_limits<double>::infinity(), bool any = false);

/// The plan whose fullest device holds least, to a thousandth (that much `lower_bound` is below), by bisection over a limit for all devices;
/// of those with so little the fastest.
PlanAnswer find_smallest(const PlanRequest& request);

/// For a request that no plan fits.
Shortfall explain_shortfall(const PlanRequest& request);

/// The same request about another cluster, which must outlive the result.
PlanRequest with_cluster(const PlanRequest& request, const Cluster& cluster);

}  // namespace trireme
