// One replica's side of a plan's agreement: the state that the replica's workers share when they execute the
// instruction `agree` (program/program.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/replica_view.h"
#include "trireme/hub.h"
#include "trireme/policy.h"

namespace trireme {

/// One training step of the replica, reported before the replica exchanges its weights with other replicas.
struct TrainedStep {
  StepFacts facts;
  double loss_sum = 0;
  double begin = 0, end = 0;  ///< seconds on the hub's clock
  /// Squared norm of the replica's gradient, before clipping; nullopt: the program keeps no gradients.
  std::optional<double> gradient_squares = {};
};

/// Owned by the run and shared by the workers of one replica. The leader is the first worker of the replica. It makes
/// all calls to the policy and the hub, while the other workers wait in the instruction. Members marked "leader" may be
/// used by the leader's thread only.
class ReplicaAgreement {
 public:
  /// All arguments must outlive this object. The program `training` must contain the instruction `agree`
  /// (Program::agrees).
  ReplicaAgreement(const Program& training, const Model& model, UpdatePolicy& update, Hub& hub);

  /// Called by the leader once the policy has begun.
  std::function<void()> on_begin;
  /// If set before the first step, the policy resumes from this state instead of its initial one.
  std::optional<PolicyState> resumed;
  /// Called by the leader after each step, before the exchange that may follow the step.
  std::function<void(const TrainedStep&)> on_trained;

  Hub& hub() { return hub_; }
  /// Every worker calls Worker::show on this view, followed by a barrier, before any other use, and once more after its
  /// first step, when the optimizer state exists.
  ReplicaView& view() { return view_; }

  // -- called by the worker's instructions

  /// Stores the results of rank `rank` in this step. Every worker calls it, before the barrier that precedes
  /// after_step.
  void note(int rank, double loss_sum, std::optional<double> gradient_squares) {
    losses_[size_t(rank)] = loss_sum;
    squares_[size_t(rank)] = gradient_squares;
  }
  /// Leader. Blocks until the step may begin or the policy has said that no step follows. `inputs` returns the model
  /// inputs of the whole batch; it is called only if the policy uses the rows that a step reads.
  void before_step(const StepFacts& facts, const std::function<std::vector<at::Tensor>()>& inputs);
  /// Leader. Called when all workers have settled (Replicas::settle).
  void after_step();
  /// True if the step that before_step was asked about is not made, and no steps follow. Valid after before_step and a
  /// barrier.
  bool has_stopped() const { return stops_; }
  /// True if that step is not made now, because UpdatePolicy::hold was called; before_step may be called for it again.
  /// Valid at the same time.
  bool is_held() const { return is_held_; }

  // -- called by the run, leader only, between two steps

  void begin();  ///< Called by the first before_step; call it directly for a replica that makes no step.
  /// Called after the last step. Calls the policy's finish, or its leave if the replica is lost.
  void finish();
  /// Called after the last step while other replicas still train. See ReplicaPolicy::settle.
  void settle();
  ModelValues values_for_evaluation() { return policy_->values_for_evaluation(state_); }
  ModelValues values() const { return values_of(state_); }
  /// True if the policy has written weights in the last step.
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
  std::vector<double> losses_;                  ///< losses of the current step, by rank
  std::vector<std::optional<double>> squares_;  ///< of each rank's part of its gradient, likewise
  StepFacts facts_;                             ///< facts of the current step
  double step_began_ = 0;
  bool has_optimizer_state_ = false;
  bool has_exchanged_ = false;            ///< leader
  bool stops_ = false, is_held_ = false;  ///< written by the leader between two barriers
};

}  // namespace trireme
