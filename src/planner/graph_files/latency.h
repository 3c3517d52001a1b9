// Placement for the latency of one sample (dnn-partitioning's model): from the first input to the last result.
//
// Each accelerator runs at most one part of the graph, contiguous (no path leaves it and comes back), once: it waits
// for all inputs, receives them, computes, sends; communication is not overlapped. CPUs run single nodes; as in the
// published program there are as many as needed (maxCPUs says only whether there are any). Nodes of one colour lie on
// one device. Memory limits accelerators.
#pragma once

#include <optional>
#include <vector>

#include "planner/deadline.h"
#include "planner/graph_files/graph_plan.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {

constexpr int kOnCpu = 0;

/// Per node its device: kOnCpu, or an accelerator counted from 1.
using DevicePlacement = std::vector<int>;

/// The latency of a placement; nullopt where it is not allowed (contiguity, colours, memory, nodes that a device cannot
/// run).
std::optional<double> placement_latency(const PlacementProblem& problem, const DevicePlacement& placement);

/// A good placement: the best of dynamic programs along topological orders, improved node by node until `deadline`.
/// nullopt: none found.
std::optional<DevicePlacement> quick_placement(const PlacementProblem& problem, const Deadline& deadline);

/// No placement has a smaller latency: the best that accelerators can do for the nodes of single paths.
double latency_bound(const PlacementProblem& problem);

struct ProgramResult {
  std::optional<DevicePlacement> placement;  ///< the best that was found, if any is better than the start
  double lower_bound = 0;                    ///< 0: none
  bool complete = false;                     ///< searched to the end
};
/// The published integer program, solved by CBC from `start` on until `deadline`, in a process of its own: what it
/// would have found where it does not come to an end in time is lost. Errors (run): no process can be started.
ProgramResult solve_latency_program(const PlacementProblem& problem, const DevicePlacement& start,
                                    const Deadline& deadline);

/// The best placement: quick_placement, then the integer program. Stages: each accelerator in use, then the CPU; their
/// load is the time from start to end of an accelerator's part, communication included. Errors (user) as plan_max_load;
/// (run) as solve_latency_program.
GraphPlan plan_latency(const PlacementProblem& problem, const std::string& where, const Deadline& deadline);

}  // namespace trireme
