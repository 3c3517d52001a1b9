// Named plans: functions Model x Cluster -> Plan.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/cluster.h"
#include "plan/plan.h"

namespace trireme {

/// Degrees of a uniform plan: every stage a (data x tensor) mesh. Their product is the number of devices.
struct Degrees {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int micro_batches = 0;  ///< 0: 4 per stage of a pipeline, 1 without one
};

/// What planning a named strategy may ask about the model: seconds of forward and backward per node, by node id, as measured by
/// a profile. Empty: FLOPs stand in for seconds (used by tests; `compare` and `train` always measure).
using LayerSeconds = std::vector<double>;

/// Errors (user): degrees that do not multiply to the cluster's devices (the equation with its values), more stages than layers,
/// a tensor degree that divides no layer.
Plan uniform_plan(const Model& model, const Cluster& cluster, const Degrees& degrees, int64_t batch,
                  const LayerSeconds& seconds);

/// "single", "data", "tensor", "pipeline", "hybrid:tensor" (data x tensor 2), "hybrid:pipeline" (data x pipeline 2), or
/// degrees spelled out: "data=2,tensor=2,pipeline=1,micro_batches=4". Errors (user): an unknown name lists the known ones; a
/// hybrid on fewer than 4 devices.
/// `micro_batches` > 0 sets the number for plans with a pipeline that do not spell it out.
Plan named_plan(std::string_view name, const Model& model, const Cluster& cluster, int64_t batch, const LayerSeconds& seconds,
                int micro_batches = 0);

/// "hybrid" stands for both its forms; everything else for itself.
std::vector<std::string> expand_strategy(std::string_view name);

/// The names that named_plan knows.
std::vector<std::string> known_strategies();

/// Whether `single` is meant: the only plan that is for one device whatever the cluster.
bool is_single(std::string_view name);

/// One sharding option per layer for a tensor axis of `degree`, chosen by a beam search over the graph that weighs
/// multiplications left undivided against bytes moved, with nominal speeds (not measured: the planner does that). Some
/// parameter is sharded wherever the degree divides one.
std::vector<std::string> choose_splits(const Model& model, int degree, int64_t samples);

/// Cuts the layers (in topological order) into `stages` runs of least greatest sum of `seconds`; exact, by dynamic
/// programming. Returns the stage of each node.
std::vector<int> balance_stages(const Model& model, int stages, const LayerSeconds& seconds);

}  // namespace trireme
