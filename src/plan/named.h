// Builds the plans of named strategies from a model and a cluster.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/strategies.h"
#include "trireme/cluster.h"
#include "trireme/plan.h"

namespace trireme {

/// Builds a plan in which all stages have the same degrees. `seconds` are measured layer times. If they are empty,
/// FLOPs are used instead of seconds (in tests; `compare` and `train` always measure). Stages are balanced for time at
/// the cluster's speeds. Errors (user): degrees whose product is not the cluster's number of devices (the message is
/// the equation with its values); more stages than layers; a tensor degree that divides no layer.
Plan uniform_plan(const Model& model, const Cluster& cluster, const Degrees& degrees, int64_t batch,
                  const LayerSeconds& seconds);

/// Builds the plan that a strategy's text describes (syntax: plan/strategy.h; names: plan/strategies.h), valid for the
/// batch. A pipeline that states no schedule uses usual_schedule(). `chunks` > 1 selects chunked_schedule(), which has
/// 2 chunks by default. Micro-batches without a pipeline accumulate gradients, with one micro-batch in flight.
/// `recompute=all` labels layers by their block, "top" if the name has none. `micro_batches` > 0 is their number in
/// pipelines that do not state it and may have several. Speeds are the cluster's unless stated. Errors (user): those of
/// parse_strategy, uniform_plan and validate; a hybrid on fewer than 4 devices; chunks without a pipeline or under a
/// schedule without chunks; more devices than branches.
Plan named_plan(std::string_view name, const Model& model, const Cluster& cluster, int64_t batch,
                const LayerSeconds& seconds, int micro_batches = 0);

/// Returns the data degree of the plan that a strategy's text describes on so many devices. Errors (user): those of
/// parse_strategy; a hybrid on fewer than 4 devices; a strategy whose plan a planner finds.
int data_degree(std::string_view name, int devices);

/// Returns the plan with all layers on one device.
Plan single_plan(const Model& model, int64_t batch);

/// Chooses one sharding option per layer for a tensor axis of `degree`, by a beam search over the graph. The cost of a
/// choice is the computation that stays undivided plus the bytes moved, at nominal speeds (the planner uses measured
/// speeds). Some parameter is sharded if the degree divides any. Options that leave a layer's weights whole and split
/// only its activations ("height" of convolutions, "sequence" of linear layers) are considered only if `also` names
/// them.
std::vector<std::string> choose_splits(const Model& model, int degree, int64_t samples, std::string_view also = "");

/// Returns the recompute label of each layer under recompute=all, by node id: its block. The layers of a plain sequence
/// ("features.0", "features.1") would each be a block by their names, and recomputing a single layer saves nothing. So
/// the layers up to and including a pooling form one block.
std::vector<std::string> recompute_labels(const Model& model);

/// Sets the recompute labels of recompute=selective. Each attention is a run of its own. Under
/// plan.recompute_communication so is each layer on a tensor axis that need not compute again (Layer::restores):
/// backward then gathers its input a second time instead of keeping the gathered one.
void label_selectively(const Model& model, Plan& plan);

/// Cuts the layers (in topological order) into `stages` runs such that the largest stage time is minimal: the sum of
/// `seconds` divided by the stage's speed. Exact, by dynamic programming. `speeds`: one per stage; empty: equal.
/// Returns the stage of each node.
std::vector<int> balance_stages(const Model& model, int stages, const LayerSeconds& seconds,
                                const std::vector<double>& speeds = {});
/// The same for items in a row, at least as many as stages. Returns the stage of each item.
std::vector<int> balance(const std::vector<double>& seconds, int stages, const std::vector<double>& speeds = {});

}  // namespace trireme
