// Downpour SGD: replicas push gradients to a sharded parameter server and fetch weights from it, each at its own pace.
//
// Dean et al., "Large scale distributed deep networks" (DistBelief), 2012. Before a step whose number n_fetch divides,
// the replica reads the server's weights; then it makes a step of its own. After a step whose 0-based number n_push
// divides, and at the end, it pushes its accumulated gradients. The server: w -= rate * push, or with element-wise
// Adagrad w -= gamma push / (sqrt(sum of squares of all pushes) + epsilon). Warm start: replica 0 trains alone at
// first.
//
// The accumulated gradient is computed from the replica's weights as (before - after) / learning rate. This is the sum
// of gradients only for plain SGD.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "trireme/policy.h"
#include "update/codec.h"

namespace trireme {

struct DownpourOptions {
  int shards = 1;
  int64_t fetch_every = 1;  ///< n_fetch, in steps
  int64_t push_every = 1;   ///< n_push, in steps
  bool adagrad = false;     ///< on the server; otherwise the server's rate is the local learning rate at the push
  double gamma = 0.1;       ///< Adagrad's rate; the paper: about ten times the best fixed rate
  double epsilon = 1e-10;   ///< Adagrad's epsilon
  int64_t warm_start = 0;   ///< steps that replica 0 makes before the other replicas begin
  std::optional<Codec> compression = {};  ///< of what replicas send, with error feedback

  std::string description() const;  ///< the policy's description with these options
};

/// `replicas`: the number of replicas of the run.
std::unique_ptr<UpdatePolicy> downpour(const DownpourOptions& options, int replicas);

}  // namespace trireme
