// Elastic averaging: every `period` steps each replica and a centre pull each other. No replica waits.
//
// Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", 2015. Before each local step whose number
// `period` divides: d = alpha (x - centre), both old values; x -= d; centre += d, so x + centre is unchanged. EAMSGD
// has Nesterov momentum on the replica: v = delta v - eta g(x + delta v); x += v. The result is the centre.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/policy.h"
#include "update/codec.h"

namespace trireme {

struct EasgdOptions {
  int64_t period = 10;                    ///< steps
  double beta = 0.9;                      ///< alpha = beta / replicas
  double momentum = 0;                    ///< delta; not 0: EAMSGD, which requires plain SGD as local optimizer
  int shards = 1;                         ///< shards of the centre
  std::optional<Codec> compression = {};  ///< of what replicas send, with error feedback

  std::string description() const;  ///< the policy's description with these options
};

/// `replicas`: the number of replicas of the run.
std::unique_ptr<UpdatePolicy> easgd(const EasgdOptions& options, int replicas);

}  // namespace trireme
