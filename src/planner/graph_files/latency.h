// Placement for the latency of one sample (dnn-partitioning's model): the time from the first input to the last result.
//
// Each accelerator runs at most one part of the graph, once. A part is contiguous: no path leaves it and returns. The
// accelerator waits for all inputs, receives them, computes and sends; communication is not overlapped. CPUs run single
// nodes. As in the published program, there are as many CPUs as needed (maxCPUs only says whether there are any). Nodes
// of one colour are on one device. Memory limits apply to accelerators.
#pragma once

#include <optional>
#include <vector>

#include "planner/deadline.h"
#include "planner/graph_files/graph_plan.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {

constexpr int kOnCpu = 0;

/// By node: its device, kOnCpu or the number of an accelerator from 1 on.
using DevicePlacement = std::vector<int>;

/// The latency of a placement; nullopt if it is not allowed (contiguity, colours, memory, nodes that a device cannot
/// run).
std::optional<double> placement_latency(const PlacementProblem& problem, const DevicePlacement& placement);

/// A good placement: the best result of dynamic programs along topological orders, improved node by node until
/// `deadline`. nullopt: none was found.
std::optional<DevicePlacement> quick_placement(const PlacementProblem& problem, const Deadline& deadline);

/// A lower bound on the latency of all placements: the best time for the nodes of single paths.
double latency_bound(const PlacementProblem& problem);

struct ProgramResult {
  std::optional<DevicePlacement> placement;  ///< the best placement found, if it is better than the start
  double lower_bound = 0;                    ///< 0: none
  bool complete = false;                     ///< the search completed
};
/// Solves the published integer program with CBC from `start` on, in a process of its own. If it does not complete
/// before `deadline`, its result is lost. Throws a run error if no process can be started.
ProgramResult solve_latency_program(const PlacementProblem& problem, const DevicePlacement& start,
                                    const Deadline& deadline);

/// The best placement: quick_placement, then the integer program. Stages are the used accelerators, then the CPU. A
/// stage's load is the time from start to end of an accelerator's part, with communication. Throws the user errors of
/// plan_max_load and the run errors of solve_latency_program.
GraphPlan plan_latency(const PlacementProblem& problem, const std::string& where, const Deadline& deadline);

}  // namespace trireme
