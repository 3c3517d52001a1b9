// When and how replicas agree on weights. docs/updates.md says what each policy does, where it comes from and what it costs.
//
// True synchronous training, a gradient of all samples in every step, is a plan's data axis, with any optimizer; synchronous.h is its name
// on the modelled clock.
//
// What a replica does, on one thread (that of its first worker, while the others wait):
//
//     auto policy = update.for_replica(hub);
//     policy->begin(state);
//     while (there is a step) {
//       if (policy->before_step(facts, state).stop) break;
//       hub.begin_step();  forward, backward, local optimizer step on state.weights;  hub.end_step();
//       policy->after_step(facts, state);
//     }
//     policy->finish(state);
//
// Where a call says that it wrote weights, whoever keeps another copy of them (in a compute dtype, sharded) renews it.
#pragma once

#include <cstdint>
#include <memory>

#include "update/hub.h"
#include "update/replica_state.h"

namespace trireme {

/// One replica's part in a policy: belongs to the replica's thread, like its hub, which outlives it. Calls throw what the hub throws.
class ReplicaPolicy {
 public:
  virtual ~ReplicaPolicy() = default;

  /// Before the first step. All replicas call it, and begin with the first one's weights and statistics, which all have already.
  virtual void begin(ReplicaState& state) {}

  struct Before {
    bool wrote = false;  ///< weights
    bool stop = false;   ///< this replica makes no more steps, this one neither; finish comes next
  };
  virtual Before before_step(const StepFacts& facts, ReplicaState& state) { return {}; }

  /// Whether it wrote weights. Where the policy does not communicate it costs nothing that grows with the weights, unless the policy's
  /// page says so.
  virtual bool after_step(const StepFacts& facts, ReplicaState& state) = 0;

  /// After the last step: what was not exchanged yet, exchanged; all replicas have the same values then, the run's result. All call it.
  virtual void finish(ReplicaState& state) = 0;

  /// What an evaluation between two steps uses, where policies have such a thing the central values, not the replica's own. Unmetered.
  /// Where the policy says evaluates_together all replicas call it after the same step, else any may alone.
  virtual ModelValues values_for_evaluation(ReplicaState& state) = 0;

  /// In place of all further calls where the replica has failed for good (Hub::is_lost): what a server must be told, it is told.
  virtual void leave(ReplicaState& state) {}
};

/// A policy of a run, shared by its replicas. Thread-safe. Belongs to one run: a server keeps weights.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;
  /// For the hub's world; null: none. Lives as long as this.
  virtual ShardServer* server() { return nullptr; }
  virtual bool evaluates_together() const { return false; }
  /// What becomes of the run when a replica is lost in the middle.
  enum class WhenLost {
    ends,       ///< all meet all: without one nobody can go on
    goes_on,    ///< the others do
    may_return, ///< the others do, and it may come back
  };
  virtual WhenLost when_lost() const { return WhenLost::ends; }
  bool outlives_replicas() const { return when_lost() != WhenLost::ends; }
  /// Whether a replica whose values are no numbers any more spoils nobody else's.
  virtual bool refuses_broken_values() const { return false; }
  /// Whether replicas write to each other's memory without an exchange: only threads of one process can, and links play no part.
  virtual bool shares_memory() const { return false; }
  /// Whether ReplicaState::tables and StepFacts::rows are wanted; to know them before a step takes time.
  virtual bool takes_rows() const { return false; }
  virtual std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) = 0;
};

}  // namespace trireme
