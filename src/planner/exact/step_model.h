// The exact planner's prediction of a plan. It uses closed formulas instead of the simulator's clock, so that the
// optimum over all plans can be found and proven. Simplifications:
// - All micro-batches are as large as the largest one, and all data shards as the largest one. A stage is as slow as
//   its slowest worker.
// - The stage that reads a value from another stage is charged for both directions, over the link between it and the
//   previous stage. A sender that is narrower than its receivers is not slowed down. If two layers
//   need the same redistribution of a value, both are charged for it.
// - Gradients are reduced layer by layer during the backward of the last micro-batch. The reductions hide behind it if
//   the cluster overlaps. Under zero2 and zero3 the traffic of a layer hides behind that layer's own backward.
// - Layers are charged one by one: a device that waits for launches in one layer does not make up for it in the next.
//   A restored layer of a recomputed run is charged like one that computes. Collectives are rings, halving and doubling
//   or two levels on every cluster, also where the simulator has NCCL's.
// - Memory is weights, gradients, optimizer state, what the micro-batches in flight retain, the largest run in
//   recomputation, and the workspace of the largest call. Under interleaved, all stages of a worker count as its
//   largest one.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/exact/step_rule.h"

namespace trireme {

/// Bytes of one device, by category.
struct DeviceMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  double total() const { return weights + gradients + optimizer + activations + workspace; }
};

struct Prediction {
  double seconds = 0;  ///< per step
  // The parts of `seconds` on the deciding stage; they add up to `seconds`.
  double compute = 0;        ///< of all micro-batches
  double communication = 0;  ///< exposed: redistributions, activations and gradients of other stages
  double reduction = 0;      ///< exposed: gradients among their holders, gathering of updated weights
  double update = 0;
  double bubble = 0;  ///< filling and draining
  int deciding_stage = 0;
  std::vector<DeviceMemory> memory;  ///< per stage, of one of its devices; under interleaved, as if all stages of its
                                     ///< workers were equal to it
  std::vector<double> limits;        ///< per stage, of its smallest device; 0: none
  double money = 0;                  ///< per step, in the cluster's currency, for all nodes that the plan uses

  bool fits() const;
  double fullest() const;  ///< bytes of the fullest device
};

constexpr double kLimitRounding = 1e-9;  ///< relative excess over a limit that is attributed to rounding

/// True if `bytes` are within `limit` (0: no limit).
inline bool fits_limit(double bytes, double limit) { return limit == 0 || bytes <= limit * (1 + kLimitRounding); }

/// Not thread-safe. `facts` must outlive this object.
class StepModel {
 public:
  explicit StepModel(const ModelFacts& facts) : facts_(facts) {}

  /// Why the step model cannot predict a plan; nullopt if it can.
  std::optional<std::string> unknown(const Plan& plan) const;
  /// Predicts a valid plan for the request's batch. Throws a user error with the reason if unknown() returns one.
  Prediction predict(const Plan& plan) const;

  /// Cached: the same arguments return the same object.
  const StageCosts& costs(DeviceSpan span, const StageSettings& settings) const;

 private:
  const ModelFacts& facts_;
  mutable std::map<std::tuple<int, int, StageSettings>, std::unique_ptr<StageCosts>> costs_;
};

/// Price per hour of the nodes that hold the first `devices` devices.
double price_per_hour(const Cluster& cluster, int devices);

}  // namespace trireme
