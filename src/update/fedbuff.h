// Buffered asynchronous aggregation: clients train at their own pace, and the server changes its weights whenever a
// number of updates has arrived. No client waits.
//
// Nguyen et al., "Federated learning with buffered asynchronous aggregation" (FedBuff), 2022: after K updates d the
// model becomes w + rate / K * sum of s(t) d, with s(t) = 1 / sqrt(1 + t). t is the staleness of an update: how often
// the model has changed since the client read it. The client continues with the newest model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/codec.h"
#include "update/local_sgd.h"

namespace trireme {

struct FedbuffOptions {
  Length local = {1, Length::Unit::epochs};  ///< a client's work between two updates
  int64_t buffer = 10;                       ///< K
  double learning_rate = 1;                  ///< the server's
  bool discounts = true;                     ///< false: s(t) = 1
  Moments moments = Moments::reset;          ///< of the client after each update; `averaged` is not supported
  int shards = 1;                            ///< of the model; each has a buffer of its own
  std::optional<Codec> compression = {};     ///< of what replicas send, with error feedback

  std::string description() const;
};

/// Updates that are left in the buffer at the end of a run are applied too, divided by their number.
std::unique_ptr<UpdatePolicy> fedbuff(const FedbuffOptions& options);

}  // namespace trireme
