// Placement for throughput (dnn-partitioning's model): the largest load per device, as small as it can be.
//
// Each device holds a contiguous part of the forward graph, order ideal minus order ideal, with the backward nodes of
// its colours.
//   load of an accelerator  sum of its nodes' times + what it sends and receives, each output once
//   load of a CPU           sum of its nodes' times
//   memory                  of an accelerator: sum of its nodes' bytes; CPUs have no limit
#pragma once

#include "planner/deadline.h"
#include "planner/graph_files/graph_plan.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {

/// The best plan; stages in the order of the data, one device each. Where `deadline` passes, or the graph has too many
/// ideals to list, the best one known then, with a lower bound below its objective. Errors (user), naming `where`: no
/// devices; operators that no device can run; memory that does not suffice (how many bytes each accelerator lacks).
/// Thread-safe.
GraphPlan plan_max_load(const PlacementProblem& problem, const std::string& where,
                        const Deadline& deadline = Deadline(std::nullopt));

/// Throws the errors of plan_max_load that no placement can avoid: no devices, operators that nothing can run, memory.
void check_placeable(const PlacementProblem& problem, const std::string& where);

}  // namespace trireme
