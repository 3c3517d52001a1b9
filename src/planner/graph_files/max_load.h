// Placement for throughput (dnn-partitioning's model): minimises the largest load of a device.
//
// Each device holds a contiguous part of the forward graph (the difference of two order ideals), with the backward
// nodes of its colours.
//   load of an accelerator  sum of its nodes' times + what it sends and receives, each output once
//   load of a CPU           sum of its nodes' times
//   memory                  of an accelerator: sum of its nodes' bytes; CPUs have no limit
#pragma once

#include "planner/deadline.h"
#include "planner/graph_files/graph_plan.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {

/// The best plan. Stages are in the order of the data, with one device each. If `deadline` passes, or the graph has too
/// many ideals to list, the plan is the best known one, with a lower bound below its objective. Throws a user error
/// that names `where` if there are no devices, for operators that no device can run, and if memory does not suffice
/// (with the missing bytes per accelerator). Thread-safe.
GraphPlan plan_max_load(const PlacementProblem& problem, const std::string& where,
                        const Deadline& deadline = Deadline(std::nullopt));

/// Throws the errors of plan_max_load that no placement can avoid: no devices, operators that no device can run,
/// memory.
void check_placeable(const PlacementProblem& problem, const std::string& where);

}  // namespace trireme
