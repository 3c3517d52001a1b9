// Runs an update policy without training, on small tensors in place of the model's.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/devices/device.h"
#include "experiment/run_spec.h"
#include "trireme/hub.h"
#include "trireme/model.h"
#include "trireme/plan.h"
#include "trireme/policy.h"

namespace trireme {

/// Describes what the replicas of a plan exchange, and makes a small state that represents it.
struct StandIn {
  StandIn(const RunSpec& experiment, const Model& model, const Plan& plan);
  ReplicaState state() const;
  /// Call it once on a policy of the plan before it plays: tells it which parts of `state` stay with each replica.
  void prepare(UpdatePolicy& update) const;

  c10::ScalarType dtype;
  std::vector<int64_t> weights;  ///< elements of the stand-in, by bucket
  std::vector<int64_t> local;    ///< by bucket: how many of its elements, the last ones, stay with each replica
  /// Channels of all batch norms together that are exchanged, and of those that stay with each replica, of the stand-in
  int64_t statistics = 0, local_statistics = 0;
  int moments = 0;   ///< tensors of the optimizer's state
  double scale = 1;  ///< elements of the model per element of the stand-in
};

/// How a replica trains.
struct StepsToPlay {
  int64_t steps = 0;  ///< 0: until the policy ends it
  int64_t steps_per_epoch = 1;
  int64_t samples = 1;  ///< of a step
  double learning_rate = 0;
  std::function<void()> on_trained = {};  ///< called after each step, before what the policy does then
};
StepsToPlay steps_to_play(const RunSpec& experiment, const Plan& plan, int64_t steps_per_epoch, int64_t steps);

/// Makes the calls of a run to one replica of `update`. `on_step` is called after the policy's part of each step, with
/// the bytes that the policy's operators have read and written in it (base/touched_bytes.h; sums over the replicas are
/// not among them). What the policy allocates is counted on `account`, a device of base/memory.h. Call it on a thread
/// for each replica of the hub's world. Throws the hub's errors.
void play(Hub& hub, UpdatePolicy& update, const StandIn& stand_in, const StepsToPlay& steps,
          const std::function<void(double touched)>& on_step, int account = kNoDevice);

}  // namespace trireme
