// The state of replicas that agree as one TrainingState, and back.
#pragma once

#include <string>
#include <vector>

#include "runtime/migrate.h"
#include "update/policy_state.h"

namespace trireme {

inline constexpr const char* kShared = "shared";  ///< what all replicas of a policy share, beside "0", "1", ...

/// Adds a replica's weights, moments and buffers: the first one's are the state's own.
void add_replica(int replica, TrainingState own, TrainingState& all);
/// Adds a policy's part: of a replica, by its number, or kShared.
void add_policy(const std::string& whose, const PolicyStateParts& parts, TrainingState& all);

struct AgreementParts {
  std::vector<TrainingState> replicas;
  PolicyState shared;
  std::vector<PolicyState> policies;  ///< by replica
};
/// Errors (user): it is of a plan without an agreement, or of another number of replicas; something is missing or unknown.
AgreementParts take_apart(TrainingState all, int replicas);

}  // namespace trireme
