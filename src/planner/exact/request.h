// The input of the exact planner: a model, devices, layer costs and the space of plans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/layer_costs.h"
#include "schedule/kinds.h"
#include "trireme/cluster.h"
#include "trireme/model.h"
#include "trireme/plan.h"

namespace trireme {

/// The objective of the search. Always subject to the devices' memory. Of equal plans, the one with fewer seconds is
/// chosen.
enum class Objective {
  time,    ///< seconds of a step
  memory,  ///< bytes of the fullest device
  cost,    ///< money of a step: seconds times the price of the nodes used
};

/// The layers between which stages may be cut.
enum class Cuts {
  automatic,  ///< every_layer for small models, then narrow, then blocks
  every_layer,
  narrow,  ///< where only one value is live
  blocks,  ///< where a block (block_of of model.h) ends and only one value is live
};

/// The space of plans. Stages are runs of layers in the model's order, on consecutive devices. Within a stage each
/// layer has a (data x tensor) mesh and one of its splits.
struct PlanSpace {
  /// Only schedules with a step rule.
  std::vector<std::string> schedules = {std::string(lean_schedule().name), std::string(usual_schedule().name)};
  /// Empty: powers of two and divisors of the batch, up to the batch and at most 8 per device.
  std::vector<int> micro_batches = {};
  std::vector<int> chunks = {2};  ///< stages per worker, for schedules with several
  std::vector<OptimizerSharding> shardings = {OptimizerSharding::none};
  bool may_keep = true;       ///< plans without recompute
  bool may_recompute = true;  ///< plans that recompute each block (recompute_labels of plan/named.h)
  /// Number of devices of a stage. Empty: any number on clusters of up to 8 devices; otherwise powers of two, divisors
  /// of the cluster size and whole nodes.
  std::vector<int> stage_sizes = {};
  /// True: all stages have equally many devices. The total of such a pipeline is any number on clusters of up to 8
  /// devices, otherwise one of the default numbers for stages. Default: true on clusters of more than 16 devices.
  std::optional<bool> equal_stages = {};
  int most_tensor = 0;  ///< greatest tensor degree; 0: any on up to 64 devices, otherwise the number of devices of a
                        ///< node
  Cuts cuts = Cuts::automatic;
};

struct PlanRequest {
  const Model& model;
  const Cluster& cluster;
  const LayerCosts& costs;
  int64_t batch = 1;
  int bytes_per_value = 4;    ///< bytes of an activation's element: 2 (bf16), 4, 8
  int optimizer_tensors = 0;  ///< state tensors per weight: SGD 0, with momentum 1, Adam 2
  /// True: without optimizer sharding the holders of a weight share one copy of it and of its optimizer state (threads
  /// of one process); each counts its slice. False: each holder has its own.
  bool shares_memory = false;
  Objective objective = Objective::time;
  PlanSpace space = {};
  /// Plans to start from, valid for the batch. The answer is not worse than the best of them that the step model
  /// supports and that fits.
  std::vector<Plan> known = {};
  std::optional<double> time_limit = {};  ///< seconds of search; then the best plan so far is returned, with its gap
  /// Relative. Improvements smaller than this are not searched for. The answer's gap says how much of it was used. 0:
  /// optimal.
  double tolerance = 0;
  /// By node: layers with the same number have the same costs. Empty: equal_layers() (model_facts.h), divided by
  /// LayerCosts::cost_class.
  std::vector<int> layer_classes = {};
};

}  // namespace trireme
