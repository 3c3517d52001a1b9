// Conversions between the state of replicas that agree and one TrainingState.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "runtime/migrate/training_state.h"
#include "trireme/plan.h"
#include "trireme/policy.h"
#include "update/policy_state.h"

namespace trireme {

/// Key of the state that all replicas of a policy share; the replicas' keys are "0", "1", ...
inline constexpr const char* kShared = "shared";
/// Key of the values of the best evaluation so far; absent unless the run restores them.
inline constexpr const char* kBest = "best";

/// The progress of a replica.
struct ReplicaProgress {
  int64_t steps = 0;
  int64_t samples = 0;  ///< of its steps
};

/// Adds a replica's weights, moments, buffers and progress. The first replica's become the state's own.
void add_replica(int replica, const ReplicaProgress& progress, TrainingState own, TrainingState& all);
/// Adds the values of the best evaluation so far.
void add_best(const ModelValues& values, TrainingState& all);
/// Adds a policy's part: of a replica, by its number, or kShared.
void add_policy(const std::string& whose, const PolicyStateParts& parts, TrainingState& all);

/// Returns a fingerprint of the order in which the weights of a replica of this program lie in a policy's state: one
/// after the other, as its buckets and their holders' slices do (ReplicaView::state). The precision, the inner plan and
/// what is frozen determine it; how buckets are cut does not.
std::string order_of_weights(const Program& program);
void add_order(const Program& program, TrainingState& all);
/// Errors (user): the policy's weights are in another order than under this program. Older checkpoints do not state the
/// order; they are accepted.
void check_order(const Program& program, const TrainingState& state);

/// Adds the progress of a replica whose own state is not known.
void add_progress(int replica, const ReplicaProgress& progress, TrainingState& all);

/// Errors (user): a run of this plan cannot resume the state, because only one of them has an agreement, or their
/// numbers of replicas differ. `path`: of the checkpoint, for messages; empty: not known.
void check_agreement_state(const Plan& plan, const TrainingState& state, const std::string& path = {});
/// Errors (user): the state is of another policy or of other options. A damaged state is left to take_apart. `path`: of
/// the checkpoint, for messages.
void check_policy_of_state(const UpdatePolicy& policy, const TrainingState& state, const std::string& path);

/// Returns the progress of each replica. Empty: the state does not contain it; all replicas have made equally many
/// steps. Errors (user): the state is damaged.
std::vector<ReplicaProgress> progress_in(const TrainingState& state, int replicas);

/// Returns the part of the policy that all replicas share. Errors (user): it is missing or damaged.
PolicyState shared_policy_in(const TrainingState& state);

struct AgreementParts {
  std::vector<TrainingState> replicas;
  PolicyState shared;
  std::vector<PolicyState> policies;  ///< by replica; empty if a server alone has written the state
  std::optional<ModelValues> best;    ///< values of the best evaluation so far
};
/// The state must have passed check_agreement_state. Errors (user): something is missing or unknown.
AgreementParts take_apart(TrainingState all, int replicas);

}  // namespace trireme
