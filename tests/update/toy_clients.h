// Clients of a federated policy on the toy problem.
#pragma once

#include <utility>
#include <vector>

#include "toy.h"
#include "update/federated.h"
#include "update/hub/virtual_world.h"
#include "worlds.h"

namespace trireme {

/// One client for each entry of `seconds`, the duration of its steps on the modelled clock.
inline std::vector<ToyResult> train_clients(FederatedPolicy& policy, const ToyProblem& problem, ToyOptions options,
                                            std::vector<double> seconds) {
  const FixedTimes times(seconds);
  VirtualWorld world(int(seconds.size()), times, {}, policy.server());
  options.steps = {kMoreThanEnough};
  return train_toy(world, policy, problem, options);
}

}  // namespace trireme
