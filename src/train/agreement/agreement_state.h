// The state of replicas that agree as one TrainingState, and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/migrate/training_state.h"
#include "trireme/plan.h"
#include "trireme/policy_state.h"

namespace trireme {

inline constexpr const char* kShared = "shared";  ///< what all replicas of a policy share, beside "0", "1", ...

/// How far a replica has come.
struct ReplicaProgress {
  int64_t steps = 0;
  int64_t samples = 0;  ///< of its steps
};

/// Adds a replica's weights, moments and buffers, the first one's as the state's own, and how far it has come.
void add_replica(int replica, const ReplicaProgress& progress, TrainingState own, TrainingState& all);
/// Adds a policy's part: of a replica, by its number, or kShared.
void add_policy(const std::string& whose, const PolicyStateParts& parts, TrainingState& all);

/// Adds how far a replica has come whose own state is not known.
void add_progress(int replica, const ReplicaProgress& progress, TrainingState& all);

/// Errors (user): a run of this plan cannot go on from the state: one of them has an agreement and the other has none,
/// or of another number of replicas.
void check_agreement_state(const Plan& plan, const TrainingState& state);

/// Of each replica; empty: the state does not say it, all have made equally many steps. Errors (user): it is damaged.
std::vector<ReplicaProgress> progress_in(const TrainingState& state, int replicas);

struct AgreementParts {
  std::vector<TrainingState> replicas;
  PolicyState shared;
  std::vector<PolicyState> policies;  ///< by replica; none where a server alone has written the state
};
/// The state has passed check_agreement_state. Errors (user): something is missing or unknown.
AgreementParts take_apart(TrainingState all, int replicas);

}  // namespace trireme
