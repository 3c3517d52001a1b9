// What the exact planner is asked: a model, devices, what layers cost, and among which plans to choose.
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

/// What a plan is judged by. Always subject to the devices' memory; ties go to the plan of least seconds.
enum class Objective {
  time,    ///< seconds of a step
  memory,  ///< bytes of the fullest device
  cost,    ///< money of a step: seconds times the price of the nodes used
};

/// Between which layers stages may be cut.
enum class Cuts {
  automatic,  ///< every_layer for small models, then narrow, then blocks
  every_layer,
  narrow,  ///< where one value crosses
  blocks,  ///< where a block (block_of of model.h) ends and one value crosses
};

/// The plans among which to choose. Stages are runs of layers in the model's order on devices that follow each other;
/// within a stage every layer has a (data x tensor) mesh and one of its splits.
struct PlanSpace {
  /// Of those with a step rule.
  std::vector<std::string> schedules = {std::string(lean_schedule().name), std::string(usual_schedule().name)};
  std::vector<int> micro_batches = {};  ///< empty: powers of two up to the batch, at most 8 per device
  std::vector<int> chunks = {2};        ///< under schedules for several stages per worker
  std::vector<OptimizerSharding> shardings = {OptimizerSharding::none};
  bool may_keep = true;       ///< plans without recompute
  bool may_recompute = true;  ///< plans that recompute every block (recompute_labels of plan/named.h)
  /// Devices of a stage. Empty: all numbers up to 8 devices; else powers of two, divisors of the cluster and whole
  /// nodes.
  std::vector<int> stage_sizes = {};
  /// Whether all stages have equally many devices; a pipeline of such stages has in all any number up to 8, else one of
  /// the numbers that are usual for stages. Default: on clusters of more than 16.
  std::optional<bool> equal_stages = {};
  int most_tensor = 0;  ///< greatest tensor degree; 0: any on up to 64 devices, else a node's devices
  Cuts cuts = Cuts::automatic;
};

struct PlanRequest {
  const Model& model;
  const Cluster& cluster;
  const LayerCosts& costs;
  int64_t batch = 1;
  int bytes_per_value = 4;    ///< of activations: 2 (bf16), 4, 8
  int optimizer_tensors = 0;  ///< state tensors per weight: SGD 0, with momentum 1, Adam 2
  Objective objective = Objective::time;
  PlanSpace space = {};
  /// Plans to beat, valid for the batch: the answer is never worse than those of them that the step model knows and
  /// that fit.
  std::vector<Plan> known = {};
  std::optional<double> time_limit =
      {};  ///< seconds of searching, after which the best so far is the answer, with its gap
  /// Relative: what is not better by more than this is not looked for. The answer's gap says how much of it was needed;
  /// 0: the very best.
  double tolerance = 0;
  /// By node: layers of one number cost the same. Empty: equal_layers() (model_facts.h).
  std::vector<int> layer_classes = {};
};

}  // namespace trireme
