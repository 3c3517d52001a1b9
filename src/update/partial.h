// Partially asynchronous averaging: weights are added up in the order in which replicas come, and a round is over when
// enough have come.
//
// RECONSTRUCTION: dislib (Vazquez-Novoa et al., 2025) names the mode in its documentation ("partially asynchronous", by
// a commutative reduction) and no more. With all replicas in a round the result is local-sgd's, up to the order of the
// sum, but a replica that comes early has its weights added before the last one is there. A smaller quorum is Trireme's
// own: those who come later are in the next round.
#pragma once

#include <memory>
#include <string>

#include "trireme/policy.h"
#include "trireme/units.h"

namespace trireme {

struct PartialOptions {
  Length every = {1, Length::Unit::epochs};
  int quorum = 0;  ///< replicas that end a round; 0: all that are still training

  std::string description() const;  ///< of the policy with these
};

/// `replicas`: of the run.
std::unique_ptr<UpdatePolicy> partial_average(const PartialOptions& options, int replicas);

}  // namespace trireme
