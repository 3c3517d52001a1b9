// Named plans: functions Model x Cluster -> Plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/strategies.h"
#include "trireme/cluster.h"
#include "trireme/plan.h"

namespace trireme {

/// What planning a named strategy may ask about the model, as measured by a profile (LayerSeconds). Empty: FLOPs stand
/// in for seconds (used by tests; `compare` and `train` always measure). Stages are balanced for time at the cluster's
/// speeds. Errors (user): degrees that do not multiply to the cluster's devices (the equation with its values), more
/// stages than layers, a tensor degree that divides no layer.
Plan uniform_plan(const Model& model, const Cluster& cluster, const Degrees& degrees, int64_t batch,
                  const LayerSeconds& seconds);

/// The plan that a strategy's text asks for (plan/strategy.h has its syntax, plan/strategies.h the names), valid for
/// the batch. A pipeline whose name and keys say no schedule has the usual one; several chunks are for the schedule
/// that is for them, which has 2 if none are said. Micro-batches without a pipeline accumulate gradients, with one of
/// them in flight. `recompute=all` labels layers by their block, "top" where the name has none. `micro_batches` > 0
/// sets the number for pipelines that do not spell it out and may have several. Speeds are the cluster's unless spelled
/// out. Errors (user): as parse_strategy, uniform_plan and validate; a hybrid on fewer than 4 devices; chunks without a
/// pipeline or under a schedule that is not for them; more devices than branches.
Plan named_plan(std::string_view name, const Model& model, const Cluster& cluster, int64_t batch,
                const LayerSeconds& seconds, int micro_batches = 0);

/// Everything on one device.
Plan single_plan(const Model& model, int64_t batch);

/// One sharding option per layer for a tensor axis of `degree`, chosen by a beam search over the graph that weighs
/// multiplications left undivided against bytes moved, with nominal speeds (not measured: the planner does that). Some
/// parameter is sharded wherever the degree divides one. Options that hold a layer's weights whole and split its
/// activations only
/// ("height" of convolutions, "sequence" of linear layers) are considered only where `also` names them.
std::vector<std::string> choose_splits(const Model& model, int degree, int64_t samples, std::string_view also = "");

/// What recompute=all writes on each layer, by node id: its block. The layers of a plain sequence ("features.0",
/// "features.1") are each a block by their names, and one layer alone that is recomputed saves nothing: those up to a
/// pooling, it included, are one run.
std::vector<std::string> recompute_labels(const Model& model);

/// Cuts the layers (in topological order) into `stages` runs of least greatest sum of `seconds` over the stage's speed;
/// exact, by dynamic programming. `speeds`: one per stage; empty: equal. Returns the stage of each node.
std::vector<int> balance_stages(const Model& model, int stages, const LayerSeconds& seconds,
                                const std::vector<double>& speeds = {});

}  // namespace trireme
