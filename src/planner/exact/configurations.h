// The configurations that find_plan enumerates: one per combination of schedule, micro-batches, optimizer sharding and
// recompute. If the schedule's formula or the size of the cluster requires a fixed pipeline shape, also one per shape.
#pragma once

#include <vector>

#include "planner/exact/pipeline_search.h"

namespace trireme {

/// A configuration with a lower bound on its step time: the work of all layers, divided evenly over the devices.
struct BoundedConfiguration {
  PipelineConfiguration configuration;
  double bound = 0;  ///< seconds
};

/// Sorted by ascending bound.
std::vector<BoundedConfiguration> make_configurations(const PlanRequest& request, StageSearches& searches);

/// The values of the default space on this request's cluster.
std::vector<int> stage_sizes_of(const PlanRequest& request);
std::vector<int> micro_batches_of(const PlanRequest& request);
bool has_equal_stages(const PlanRequest& request);

}  // namespace trireme
