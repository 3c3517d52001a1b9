// Parallel branches of a model, and their placement on workers of their own (Pal et al., "Optimizing Multi-GPU
// Parallelization Strategies for Deep Learning Training", IEEE Micro 2019, place operations so; here the branches of
// one block at a time).
#pragma once

#include <vector>

#include "plan/layer_seconds.h"
#include "trireme/plan.h"

namespace trireme {

/// The layers between `fork` and `join`, in groups that share no layer and no edge. A path of no layers (a skip
/// connection) is no branch.
struct BranchRegion {
  NodeId fork = -1, join = -1;
  std::vector<std::vector<NodeId>> branches;  ///< at least two, each in topological order
};

/// The outermost regions, in topological order of their forks. A region ends where all paths from its fork meet again
/// (the fork's nearest common post-dominator). Layers that the loss does not depend on belong to none.
std::vector<BranchRegion> find_branches(const Model& model);

/// The worker of each node: 0 for what lies outside the regions; of each region the branches in descending order of
/// their seconds, each to the worker with the least so far, the first to worker 0.
std::vector<int> place_branches(const std::vector<BranchRegion>& regions, const Model& model, int workers,
                                const LayerSeconds& seconds);

/// NamedStrategy::make. Of each block with parallel branches, the branches over the workers, longest first; all else on
/// worker 0. Errors (user): no branches, more devices than branches.
Plan branch_plan(Plan plan, const Model& model, const LayerSeconds& seconds, const std::string& where);

}  // namespace trireme
