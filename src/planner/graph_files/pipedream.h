// PipeDream's cost model, exactly as its official optimizer has it (one level of machines), solved to the optimum.
//
// A plan is a sequence of stages, each on r replicas, r summing to at most the number of devices. Over the order ideals
// of the graph:
//   a stage's load     ( sum of forward + backward + 4 (r-1)/r * weights / bandwidth ) / r
//   a boundary's load  2 * activations / (bandwidth * r), r of the stage behind the boundary for what comes in and, but
//   for the first
//                      stage and the last, of the stage before it for what goes out. Activations are those of the nodes that the cut
//                      leaves open, counted as the official code counts them
//   objective          the largest of all these: seconds per mini-batch in steady state
// The volume of the all-reduce is twice a ring's, and first stages pay nothing for what they send: both as in that
// code, not as in the paper. Inputs ("Input...") cost nothing; results taken out of a tuple that nobody reads are left
// out.
//
// Different on purpose: devices may stay idle (there all must be used), and with several sources every order ideal is a
// state (there only those that a walk from the first source meets). Both can only make a plan better.
#pragma once

#include <optional>

#include "planner/deadline.h"
#include "planner/graph_files/graph_plan.h"
#include "planner/graph_files/layer_profile.h"

namespace trireme {

struct PipeDreamCosts {
  int devices = 1;
  double bandwidth = 0;   ///< bytes per second, above 0
  bool straight = false;  ///< no replicas
  /// Bytes that a device may hold for mini-batches under way: ceil(devices behind the stage / r) * (activations +
  /// weights) of the stage. nullopt: no test. A single stage holds 0 by this formula, so there is always a plan.
  std::optional<double> memory;
};

/// The best plan. Stages come in the order of the data. Where `deadline` passes, or the graph has too many ideals to
/// list, the best plan known then, with a lower bound below its objective. Thread-safe.
GraphPlan plan_pipedream(const LayerGraph& graph, const PipeDreamCosts& costs,
                         const Deadline& deadline = Deadline(std::nullopt));

}  // namespace trireme
