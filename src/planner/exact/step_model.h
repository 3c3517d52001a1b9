// The exact planner's own prediction of a plan: closed formulas in place of the simulator's clock, so that the best of
// all plans can be found and proven. What it leaves out:
// - Micro-batches are all as large as the largest, data shards as the largest; a stage is as slow as its slowest
// worker.
// - A value that crosses stages is paid for by the stage that reads it, both ways, over the link between it and the
// stage before; a sender
//   narrower than its receivers is not slowed down. Two layers that read one value in the same other layout both pay
//   for the move.
// - Gradients are reduced layer by layer during the backward of the last micro-batch and hide behind it where the
// cluster overlaps; under
//   zero2, zero3 the traffic of a layer hides behind that layer's own backward.
// - Memory is weights, gradients, optimizer state, what the micro-batches in flight keep, the largest run that is being
// recomputed, and the
//   largest call's workspace. Under interleaved a worker's stages are taken to be all like its largest.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "planner/exact/step_rule.h"

namespace trireme {

/// Bytes of one device.
struct DeviceMemory {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, workspace = 0;
  double total() const { return weights + gradients + optimizer + activations + workspace; }
};

struct Prediction {
  double seconds = 0;  ///< of a step
  // what they are made of, on the stage that decides; they add up to `seconds`
  double compute = 0;        ///< of all micro-batches
  double communication = 0;  ///< exposed: redistributions, activations and gradients of other stages
  double reduction = 0;      ///< exposed: gradients among their holders, weights that come back
  double update = 0;
  double bubble = 0;  ///< filling and draining
  int deciding_stage = 0;
  std::vector<DeviceMemory>
      memory;  ///< of a device of each stage; under interleaved, of each stage as if all of its workers' were like it
  std::vector<double> limits;  ///< of each stage's smallest device; 0: none
  double money = 0;            ///< of a step, in the cluster's currency: all of the nodes that the plan uses

  bool fits() const;
  double fullest() const;  ///< bytes of the fullest device
};

constexpr double kLimitRounding = 1e-9;  ///< so much of a limit may be lost in rounding sums

/// Whether so many bytes are within a limit (0: none).
inline bool fits_limit(double bytes, double limit) { return limit == 0 || bytes <= limit * (1 + kLimitRounding); }

/// Used by one thread. `facts` outlives it.
class StepModel {
 public:
  explicit StepModel(const ModelFacts& facts) : facts_(facts) {}

  /// Why the step model has no prediction for a plan: {} where it has one.
  std::optional<std::string> unknown(const Plan& plan) const;
  /// Of a valid plan for the request's batch. Errors (user): unknown() says why.
  Prediction predict(const Plan& plan) const;

  /// Kept: asked for the same again gives the same.
  const StageCosts& costs(DeviceSpan span, const StageSettings& settings) const;

 private:
  const ModelFacts& facts_;
  mutable std::map<std::tuple<int, int, StageSettings>, std::unique_ptr<StageCosts>> costs_;
};

/// Price of an hour of the nodes that hold the first `devices` devices.
double price_per_hour(const Cluster& cluster, int devices);

}  // namespace trireme
