#include "trireme/policy.h"

#include <fmt/format.h>

#include "update/policy_state.h"

namespace trireme {

PolicyState ReplicaPolicy::state(const ReplicaState& state) {
  PolicyState saved;
  StateFields out(saved);
  std::vector<int64_t> place = {hub_.replica(), hub_.replicas()};
  out.value("replica", place);
  fields(out, state);
  out.done();
  return saved;
}

void ReplicaPolicy::resume(const PolicyState& saved, ReplicaState& state) {
  if (hub_.joined_late()) return begin(state);
  StateFields in(saved, fmt::format("update policy's state of replica {}", hub_.replica()));
  std::vector<int64_t> place(2);
  in.value("replica", place);
  if (place[0] != hub_.replica() || place[1] != hub_.replicas())
    in.refuse("replica", fmt::format("it belongs to replica {} of {}, this is replica {} of {}", place[0], place[1],
                                     hub_.replica(), hub_.replicas()));
  resumes_ = true;
  begin(state);
  fields(in, state);
  in.done();
}

PolicyState UpdatePolicy::state(double now) {
  PolicyState saved;
  saved.policy = description();
  StateFields out(saved);
  fields(out, now);
  out.done();
  return saved;
}

void UpdatePolicy::resume(const PolicyState& saved, double now) {
  check_same_policy("update policy's state", saved.policy, description());
  StateFields in(saved, "update policy's state");
  fields(in, now);
}

}  // namespace trireme
