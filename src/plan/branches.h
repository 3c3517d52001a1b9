// Finds parallel branches of a model and places them on different workers. Pal et al., "Optimizing Multi-GPU
// Parallelization Strategies for Deep Learning Training", IEEE Micro 2019, place single operations in this way. Here
// whole branches are placed, one block at a time.
#pragma once

#include <vector>

#include "plan/layer_seconds.h"
#include "trireme/plan.h"

namespace trireme {

/// The layers between `fork` and `join`, in groups that share no layer and no edge. A path without layers (a skip
/// connection) is not a branch.
struct BranchRegion {
  NodeId fork = -1, join = -1;
  std::vector<std::vector<NodeId>> branches;  ///< at least two, each in topological order
};

/// Returns the outermost regions, in topological order of their forks. A region ends at its fork's immediate
/// post-dominator, where all paths from the fork converge. A target is never a fork. Layers on which the loss does not
/// depend belong to no region.
std::vector<BranchRegion> find_branches(const Model& model);

/// Returns the worker of each node. Nodes outside the regions are on worker 0. The branches of each region are assigned
/// in descending order of their seconds, each to the worker with the least seconds so far, the first to worker 0.
std::vector<int> place_branches(const std::vector<BranchRegion>& regions, const Model& model, int workers,
                                const LayerSeconds& seconds);

/// Implements NamedStrategy::make. Distributes the branches of each block over the workers, longest first; all other
/// layers are on worker 0. Errors (user): a model without branches; more devices than branches.
Plan branch_plan(Plan plan, const Model& model, const LayerSeconds& seconds, const std::string& where);

/// Returns the plan with a data axis of degree `replicas`. The devices of one replica have consecutive numbers. `plan`:
/// of one replica, with each layer whole on one worker.
Plan replicated(Plan plan, int replicas);

}  // namespace trireme
