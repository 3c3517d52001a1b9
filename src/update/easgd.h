// Elastic averaging: each replica and a centre pull each other, every `period` steps, and nobody waits.
//
// Zhang, Choromanska, LeCun, "Deep learning with elastic averaging SGD", 2015. Before the local step, where `period`
// divides the replica's step: d = alpha (x - centre), both from before; x -= d; centre += d, so that x + centre stays.
// EAMSGD has Nesterov momentum on the replica: v = delta v - eta g(x + delta v); x += v. The result is the centre.
#pragma once

#include <memory>
#include <string>

#include "trireme/policy.h"

namespace trireme {

struct EasgdOptions {
  int64_t period = 10;  ///< steps
  double beta = 0.9;    ///< alpha = beta / replicas
  double momentum = 0;  ///< delta; other than 0: EAMSGD, whose local optimizer must be plain SGD
  int shards = 1;       ///< of the centre

  std::string description() const;  ///< of the policy with these
};

/// `replicas`: of the run.
std::unique_ptr<UpdatePolicy> easgd(const EasgdOptions& options, int replicas);

}  // namespace trireme
