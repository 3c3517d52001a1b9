// Partially asynchronous averaging: weights are added in the order in which replicas arrive, and a round ends when
// enough have arrived.
//
// RECONSTRUCTION: dislib (Vazquez-Novoa et al., 2025) only names this mode in its documentation ("partially
// asynchronous", by a commutative reduction). With all replicas in a round the result is local-sgd's, except for the
// order of the sum; but an early replica's weights are added before the last replica arrives. A smaller quorum is
// Trireme's own extension: replicas that arrive later are in the next round.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "trireme/config.h"
#include "trireme/policy.h"
#include "update/codec.h"

namespace trireme {

struct PartialOptions {
  Length every = {1, Length::Unit::epochs};
  int quorum = 0;                         ///< number of replicas that end a round; 0: all that are still training
  std::optional<Codec> compression = {};  ///< of what replicas send, with error feedback

  std::string description() const;  ///< the policy's description with these options
};

/// `replicas`: the number of replicas of the run.
std::unique_ptr<UpdatePolicy> partial_average(const PartialOptions& options, int replicas);

}  // namespace trireme
