// Named plans: functions Model x Cluster -> Plan.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/cluster.h"
#include "plan/plan.h"

namespace trireme {

/// Degrees of a uniform plan: every stage a (data x tensor) mesh. data * tensor * pipeline is the number of devices.
struct Degrees {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int micro_batches = 0;  ///< 0: 4 per position of a pipeline (fewer where the batch is small), 1 without one
  int chunks = 1;         ///< stages per worker: stage i lies on position i mod pipeline
  std::string split = {}; ///< as choose_splits' `also`
};

/// What planning a named strategy may ask about the model: seconds of forward and backward per node, by node id, as measured by
/// a profile. Empty: FLOPs stand in for seconds (used by tests; `compare` and `train` always measure).
using LayerSeconds = std::vector<double>;

/// Stages are balanced for time at the cluster's speeds. Errors (user): degrees that do not multiply to the cluster's devices
/// (the equation with its values), more stages than layers, a tensor degree that divides no layer.
Plan uniform_plan(const Model& model, const Cluster& cluster, const Degrees& degrees, int64_t batch,
                  const LayerSeconds& seconds);

/// The plan that a strategy's text asks for (plan/strategy.h has its syntax), valid for the batch. Over all n devices:
/// "single"; "data"; "tensor"; "pipeline" (gpipe unless its keys say otherwise); "gpipe"; "1f1b"; "interleaved" (2 chunks per worker); "zero-bubble"; "pipedream" (one
/// micro-batch); "2bw"; "zero1", "zero2", "zero3" (data parallel); "hybrid:tensor" (data n/2 x tensor 2), "hybrid:pipeline"
/// (data n/2 x pipeline 2); "branches": of each block with parallel branches, the branches over the workers, longest first, and
/// all else on worker 0. Micro-batches without a pipeline accumulate gradients: schedule 1f1b with one of them in flight.
/// `recompute=all` labels layers by their block, "top" where the name has none.
/// `micro_batches` > 0 sets the number for pipelines that do not spell it out, but for pipedream's one.
/// Speeds are the cluster's unless spelled out. Errors (user): as parse_strategy, uniform_plan and validate; a hybrid on fewer than
/// 4 devices; chunks without a pipeline or under another schedule than interleaved; more devices than branches.
Plan named_plan(std::string_view name, const Model& model, const Cluster& cluster, int64_t batch, const LayerSeconds& seconds,
                int micro_batches = 0);

/// "hybrid", also with keys after it, stands for both its forms; everything else for itself.
std::vector<std::string> expand_strategy(std::string_view name);

/// The names that named_plan knows. Not every one suits every model and number of devices.
std::vector<std::string> known_strategies();

/// Whether `single` is meant, perhaps with keys after it: the only name that is for one device whatever the cluster.
bool is_single(std::string_view name);

/// One sharding option per layer for a tensor axis of `degree`, chosen by a beam search over the graph that weighs
/// multiplications left undivided against bytes moved, with nominal speeds (not measured: the planner does that). Some
/// parameter is sharded wherever the degree divides one. Options that hold a layer's weights whole and split its activations only
/// ("height" of convolutions, "sequence" of linear layers) are considered only where `also` names them.
std::vector<std::string> choose_splits(const Model& model, int degree, int64_t samples, std::string_view also = "");

/// What recompute=all writes on each layer, by node id: its block. The layers of a plain sequence ("features.0", "features.1") are each a
/// block by their names, and one layer alone that is recomputed saves nothing: those up to a pooling, it included, are one run.
std::vector<std::string> recompute_labels(const Model& model);

/// Cuts the layers (in topological order) into `stages` runs of least greatest sum of `seconds` over the stage's speed; exact, by
/// dynamic programming. `speeds`: one per stage; empty: equal. Returns the stage of each node.
std::vector<int> balance_stages(const Model& model, int stages, const LayerSeconds& seconds, const std::vector<double>& speeds = {});

}  // namespace trireme
