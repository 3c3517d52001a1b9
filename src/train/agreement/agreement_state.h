// The state of replicas that agree as one TrainingState, and back.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "runtime/migrate/training_state.h"
#include "update/policy_state.h"

namespace trireme {

inline constexpr const char* kShared = "shared";  ///< what all replicas of a policy share, beside "0", "1", ...

/// Adds a replica's weights, moments and buffers: the first one's are the state's own.
void add_replica(int replica, TrainingState own, TrainingState& all);
/// Adds a policy's part: of a replica, by its number, or kShared.
void add_policy(const std::string& whose, const PolicyStateParts& parts, TrainingState& all);

/// Errors (user): a run of this plan cannot go on from the state: one of them has an agreement and the other has none, or of another number of
/// replicas.
void check_agreement_state(const Plan& plan, const TrainingState& state);

struct AgreementParts {
  std::vector<TrainingState> replicas;
  PolicyState shared;
  std::vector<PolicyState> policies;  ///< by replica
};
/// The state has passed check_agreement_state. Errors (user): something is missing or unknown.
AgreementParts take_apart(TrainingState all, int replicas);

}  // namespace trireme
