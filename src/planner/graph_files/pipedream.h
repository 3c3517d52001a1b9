// PipeDream's cost model, exactly as in its official optimizer (one level of machines), solved to the optimum.
//
// A plan is a sequence of stages, each on r replicas; the sum of r is at most the number of devices. Over the order
// ideals of the graph:
//   a stage's load     ( sum of forward + backward + 4 (r-1)/r * weights / bandwidth ) / r
//   a boundary's load  2 * activations / (bandwidth * r)
//   objective          the largest of all these: seconds per mini-batch in steady state
// A boundary counts with r of the stage after it, for the input, and, except for the first and the last stage, with r
// of the stage before it, for the output. Activations are those of the nodes that the cut leaves open, counted as the
// official code counts them. The volume of the all-reduce is twice a ring's, and first stages are not charged for what
// they send: both as in that code, not as in the paper. Inputs ("Input...") cost nothing. Tuple elements without
// readers are left out.
//
// Intentional differences: devices may be idle (the official code uses all), and with several sources each order ideal
// is a state (the official code only uses those that a traversal from the first source reaches). Both can only improve
// a plan.
#pragma once

#include <optional>

#include "planner/deadline.h"
#include "planner/graph_files/graph_plan.h"
#include "planner/graph_files/layer_profile.h"

namespace trireme {

struct PipeDreamCosts {
  int devices = 1;
  double bandwidth = 0;   ///< bytes per second, > 0
  bool straight = false;  ///< no replicas
  /// Bytes that a device may hold for mini-batches in flight: ceil(devices after the stage / r) * (activations +
  /// weights) of the stage. nullopt: no limit. A single stage holds 0 by this formula, so there is always a plan.
  std::optional<double> memory;
};

/// The best plan. Stages are in the order of the data. If `deadline` passes, or the graph has too many ideals to list,
/// the plan is the best known one, with a lower bound below its objective. Thread-safe.
GraphPlan plan_pipedream(const LayerGraph& graph, const PipeDreamCosts& costs,
                         const Deadline& deadline = Deadline(std::nullopt));

}  // namespace trireme
