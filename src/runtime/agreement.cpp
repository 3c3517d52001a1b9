#include "runtime/agreement.h"

#include <numeric>

#include "base/memory.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr MemoryCategory kOfPolicies = MemoryCategory::buffers;

/// Returns the sum of the parts; nullopt if one is not known.
std::optional<double> sum_of(const std::vector<std::optional<double>>& parts) {
  double sum = 0;
  for (const std::optional<double>& part : parts) {
    if (!part) return std::nullopt;
    sum += *part;
  }
  return sum;
}

}  // namespace

ReplicaAgreement::ReplicaAgreement(const Program& training, const Model& model, UpdatePolicy& update, Hub& hub)
    : update_(update),
      hub_(hub),
      view_(training, model),
      losses_(training.list_of_rank.size()),
      squares_(training.list_of_rank.size()) {}

void ReplicaAgreement::take_state() {
  state_ = view_.state();
  if (!update_.takes_rows()) state_.tables.clear();
}

void ReplicaAgreement::begin() {
  if (policy_) return;
  const MemoryScope memory(kOfPolicies);
  take_state();
  policy_ = update_.for_replica(hub_);
  if (resumed) policy_->resume(*resumed, state_);
  else policy_->begin(state_);
  resumed.reset();
  view_.renew();  // a replica that joined late begins with the server's weights
  if (!hub_.joined_late()) hub_.barrier();
  if (on_begin) on_begin();
}

void ReplicaAgreement::before_step(const StepFacts& facts, const std::function<std::vector<at::Tensor>()>& inputs) {
  begin();
  stops_ = hub_.is_lost();
  if (stops_) return;
  facts_ = facts;
  if (!state_.tables.empty()) facts_.rows = view_.rows_in(inputs());
  const MemoryScope memory(kOfPolicies);
  const ReplicaPolicy::Before before = policy_->before_step(facts_, state_);
  has_exchanged_ = before.wrote;
  if (before.wrote) view_.renew();
  stops_ = before.stop;
  is_held_ = before.held;
  if (stops_ || is_held_) return;
  hub_.begin_step();
  step_began_ = hub_.now();
}

void ReplicaAgreement::after_step() {
  hub_.end_step();
  if (!has_optimizer_state_) take_state();
  has_optimizer_state_ = true;
  if (hub_.is_lost()) return;
  if (on_trained)
    on_trained({.facts = facts_,
                .loss_sum = std::accumulate(losses_.begin(), losses_.end(), 0.0),
                .begin = step_began_,
                .end = hub_.now(),
                .gradient_squares = sum_of(squares_)});
  const MemoryScope memory(kOfPolicies);
  if (!policy_->after_step(facts_, state_)) return;
  has_exchanged_ = true;
  view_.renew();
}

void ReplicaAgreement::settle() {
  begin();
  const MemoryScope memory(kOfPolicies);
  policy_->settle(state_);
}

void ReplicaAgreement::finish() {
  begin();
  const MemoryScope memory(kOfPolicies);
  if (hub_.is_lost()) policy_->leave(state_);
  else policy_->finish(state_);
}

}  // namespace trireme
