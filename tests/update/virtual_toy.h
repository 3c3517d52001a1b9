// Trains on the toy problem on the modelled clock, with steps of fixed length.
#pragma once

#include <utility>
#include <vector>

#include "toy.h"
#include "update/hub/virtual_world.h"
#include "worlds.h"

namespace trireme {

/// `seconds`: of a step, by replica; the last one holds for all following replicas.
inline std::vector<ToyResult> train_virtually(UpdatePolicy& policy, const ToyProblem& problem,
                                              const ToyOptions& options, int replicas,
                                              std::vector<double> seconds = {1}, const VirtualLinks& links = {}) {
  const FixedTimes times(std::move(seconds));
  VirtualWorld world(replicas, times, links, policy.server());
  return train_toy(world, policy, problem, options);
}

/// The same, with one replica for each of `seconds`. It has another name because "{1}" could also be a number of
/// replicas.
inline std::vector<ToyResult> train_with_times(UpdatePolicy& policy, const ToyProblem& problem,
                                               const ToyOptions& options, const std::vector<double>& seconds,
                                               const VirtualLinks& links = {}) {
  return train_virtually(policy, problem, options, int(seconds.size()), seconds, links);
}

}  // namespace trireme
