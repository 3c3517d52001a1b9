// What find_plan enumerates: one configuration for each combination of schedule, micro-batches, sharding and recompute,
// and of the pipeline's shape where the schedule's formula or the cluster's size asks for a fixed one.
#pragma once

#include <vector>

#include "planner/exact/pipeline_search.h"

namespace trireme {

/// A configuration, and what no answer to it can be better than: the work of all layers, divided evenly over the
/// devices.
struct BoundedConfiguration {
  PipelineConfiguration configuration;
  double bound = 0;  ///< seconds
};

/// In ascending order of their bounds.
std::vector<BoundedConfiguration> make_configurations(const PlanRequest& request, StageSearches& searches);

/// What the default space stands for on this request's cluster.
std::vector<int> stage_sizes_of(const PlanRequest& request);
std::vector<int> micro_batches_of(const PlanRequest& request);
bool has_equal_stages(const PlanRequest& request);

}  // namespace trireme
