// One replica's part in the agreement of a plan: what its workers share when they execute `agree` (program/program.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/replica_view.h"
#include "trireme/hub.h"
#include "trireme/policy.h"
#include "trireme/policy_state.h"

namespace trireme {

/// A step of the replica, told before its weights meet those of others.
struct TrainedStep {
  StepFacts facts;
  double loss_sum = 0;
  double begin = 0, end = 0;  ///< seconds on the hub's clock
};

/// Owned by the run, shared by the workers of one replica. The replica's first worker, the leader, makes all calls to
/// the policy and the hub, while the other workers wait in the instruction. Members marked "leader" belong to its
/// thread.
class ReplicaAgreement {
 public:
  /// All outlive it. `training` agrees (Program::agrees).
  ReplicaAgreement(const Program& training, const Model& model, UpdatePolicy& update, Hub& hub);

  /// Called by the leader when the policy has begun, and after each step before the exchange that may follow it.
  std::function<void()> on_begin;
  /// What the policy goes on from in place of its beginning; before the first step.
  std::optional<PolicyState> resumed;
  std::function<void(const TrainedStep&)> on_trained;

  Hub& hub() { return hub_; }
  /// Workers show what they hold before anything else (Worker::show, then a barrier), and after their first step, when
  /// the optimizer has its state.
  ReplicaView& view() { return view_; }

  // -- by the worker's instructions

  /// Before the barrier that precedes after_step.
  void note_loss(int rank, double loss_sum) { losses_[size_t(rank)] = loss_sum; }
  /// Leader. Returns once the step may begin or the policy has said that there is none. `inputs`: of the whole batch;
  /// asked for where the policy wants rows.
  void before_step(const StepFacts& facts, const std::function<std::vector<at::Tensor>()>& inputs);
  /// Leader, when all workers have settled.
  void after_step();
  /// After before_step and a barrier: the step that was announced is not made, and no more are.
  bool has_stopped() const { return stops_; }
  /// Likewise: the step is not made now, as UpdatePolicy::hold asks; it may be announced again.
  bool is_held() const { return is_held_; }

  // -- by the run, leader, between two steps

  void begin();  ///< what the first before_step does first; for a replica that makes no step
  /// After the last step: policy's finish, or leave where the replica is lost.
  void finish();
  /// After the last step, where others still train: as ReplicaPolicy::settle.
  void settle();
  ModelValues values_for_evaluation() { return policy_->values_for_evaluation(state_); }
  ModelValues values() const { return values_of(state_); }
  /// In the last step: the policy has written weights.
  bool has_exchanged() const { return has_exchanged_; }
  ReplicaState& state() { return state_; }
  ReplicaPolicy& policy() { return *policy_; }

 private:
  void take_state();

  UpdatePolicy& update_;
  Hub& hub_;
  ReplicaView view_;
  ReplicaState state_;
  std::unique_ptr<ReplicaPolicy> policy_;
  std::vector<double> losses_;  ///< of the step, by rank
  StepFacts facts_;             ///< of the step
  double step_began_ = 0;
  bool has_optimizer_state_ = false;
  bool has_exchanged_ = false;            ///< leader
  bool stops_ = false, is_held_ = false;  ///< written by the leader between two barriers
};

}  // namespace trireme
