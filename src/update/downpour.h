// Downpour SGD: replicas push gradients to a sharded parameter server and fetch weights from it, each at its own pace.
//
// Dean et al., "Large scale distributed deep networks" (DistBelief), 2012. Where n_fetch divides the replica's step it
// takes the server's weights, then makes a step of its own; what it has gathered of gradients it pushes after each step
// whose 0-based number n_push divides, and at the end. The server: w -= rate * push, or with Adagrad by element w -=
// gamma push / (sqrt(sum of squares of all pushes) + epsilon). Warm start: replica 0 trains alone at first.
//
// What a replica has gathered is taken from its weights, (before - after) / learning rate: the sum of gradients for
// plain SGD only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/policy.h"

namespace trireme {

struct DownpourOptions {
  int shards = 1;
  int64_t fetch_every = 1;  ///< n_fetch, steps
  int64_t push_every = 1;   ///< n_push
  bool adagrad = false;     ///< on the server; else its rate is the local learning rate at the push
  double gamma = 0.1;       ///< Adagrad's rate; the paper: about ten times the best fixed one
  double epsilon = 1e-10;   ///< Adagrad's
  int64_t warm_start = 0;   ///< steps that replica 0 makes before the others begin

  std::string description() const;  ///< of the policy with these
};

/// `replicas`: of the run.
std::unique_ptr<UpdatePolicy> downpour(const DownpourOptions& options, int replicas);

}  // namespace trireme
