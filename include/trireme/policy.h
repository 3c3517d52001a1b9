// When and how replicas agree on weights. docs/updates.md says what each policy does, where it comes from and what it
// costs.
//
// True synchronous training, a gradient of all samples in every step, is a plan's data axis, with any optimizer;
// synchronous.h is its name on the modelled clock.
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
//
// Checkpoints. When all replicas have been stopped, as UpdatePolicy::stops says (after update.hold(), each calls
// policy->release_waiting()), each calls policy->state(state) on its thread, and when all have, one calls
// update.state(now) and update.go_on(). To go on: a new policy with the same options, update.resume(saved, now) before
// the hubs' world runs, and on each replica policy->resume(saved, state) in place of begin, with the weights, moments
// and statistics that `state` had then; steps are counted on. Where the result does not depend on who comes when it is
// that of the undisturbed run, bit for bit. A replica that calls begin beside a server that goes on has nothing to go
// on from: it begins with the server's weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trireme/hub.h"
#include "trireme/policy_state.h"
#include "trireme/replica_state.h"
#include "trireme/run_facts.h"

namespace trireme {

class ConfigTable;

/// One replica's part in a policy: belongs to the replica's thread, like its hub, which outlives it. Calls throw what
/// the hub throws.
class ReplicaPolicy {
 public:
  explicit ReplicaPolicy(Hub& hub) : hub_(hub) {}
  virtual ~ReplicaPolicy() = default;

  /// Before the first step. All replicas call it, and begin with the first one's weights and statistics, which all have
  /// already.
  virtual void begin(ReplicaState& state) {}

  struct Before {
    bool wrote = false;  ///< weights
    bool stop = false;   ///< this replica makes no more steps, this one neither; finish comes next
    bool held =
        false;  ///< as UpdatePolicy::hold asks: nothing has happened; the same call comes again when the run goes on
  };
  virtual Before before_step(const StepFacts& facts, ReplicaState& state) { return {}; }

  /// Whether it wrote weights. Where the policy does not communicate it costs nothing that grows with the weights,
  /// unless the policy's page says so.
  virtual bool after_step(const StepFacts& facts, ReplicaState& state) = 0;

  /// What was not exchanged yet, is. Between the last step and finish, for a replica whose state is to be taken while
  /// others still train; finish does it otherwise. Where that waits for others it ends when UpdatePolicy::hold asks,
  /// and is called again when the run goes on.
  virtual void settle(ReplicaState& state) {}

  /// After the last step: what was not exchanged yet, exchanged; all replicas have the same values then, the run's
  /// result. All call it.
  virtual void finish(ReplicaState& state) = 0;

  /// What an evaluation between two steps uses, where policies have such a thing the central values, not the replica's
  /// own. Unmetered. Where the policy says evaluates_together all replicas call it after the same step, else any may
  /// alone.
  virtual ModelValues values_for_evaluation(ReplicaState& state) = 0;

  /// In place of all further calls where the replica has failed for good (Hub::is_lost): what a server must be told, it
  /// is told.
  virtual void leave(ReplicaState& state) {}

  /// After UpdatePolicy::hold, by a replica that has been stopped: those that wait at the server are held now.
  /// Unmetered.
  virtual void release_waiting() {}

  /// This replica's part, but for `state` itself: copies. Between two steps, or after settle, when all replicas have
  /// been stopped; an exchange that goes on meanwhile is waited for, and enters the weights when it would have.
  PolicyState state(const ReplicaState& state);
  /// In place of begin, with what `state` held when the part was taken; all replicas do, or begin. What came late
  /// (Hub::came_late) begins anew. Errors (user): the part is of another replica, policy or number of replicas, or of
  /// weights of another size.
  void resume(const PolicyState& saved, ReplicaState& state);

 protected:
  /// Names all values of the part. Copied in after begin.
  virtual void fields(StateFields& fields, const ReplicaState& state) {}
  /// In begin: whether the part will be copied in.
  bool resumes() const { return resumes_; }

  Hub& hub_;

 private:
  bool resumes_ = false;
};

/// A policy of a run, shared by its replicas. Thread-safe. Belongs to one run: a server keeps weights.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;
  /// Name and options, in one line: two policies with the same one do the same.
  virtual std::string description() const = 0;
  /// For the hub's world; null: none. Lives as long as this.
  virtual ShardServer* server() { return nullptr; }
  virtual bool evaluates_together() const { return false; }
  /// What becomes of the run when a replica is lost in the middle.
  enum class WhenLost {
    ends,        ///< all meet all: without one nobody can go on
    goes_on,     ///< the others do
    may_return,  ///< the others do, and it may come back
  };
  virtual WhenLost when_lost() const { return WhenLost::ends; }
  bool outlives_replicas() const { return when_lost() != WhenLost::ends; }
  /// Whether a replica whose values are no numbers any more spoils nobody else's.
  virtual bool refuses_broken_values() const { return false; }
  /// Whether replicas write to each other's memory without an exchange: only threads of one process can, and links play
  /// no part.
  virtual bool shares_memory() const { return false; }
  /// Whether ReplicaState::tables and StepFacts::rows are wanted; to know them before a step takes time.
  virtual bool takes_rows() const { return false; }
  virtual std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) = 0;

  /// Where all replicas can be stopped for a checkpoint: none waits in a call for one that has been stopped.
  enum class Stops {
    together,  ///< after equally many steps; where replicas make differently many in an epoch, at the end of the same
               ///< epoch
    anywhere,  ///< each between any two of its steps, once all have made one, or after settle
    held,      ///< each between any two of its steps, while hold() is in force
  };
  virtual Stops stops() const { return Stops::together; }
  /// Steps that a replica makes before it can be stopped, at least.
  virtual int64_t steps_before_stops() const { return 1; }
  /// From now on nobody waits for what comes of others' steps: before_step returns `held`, and after_step leaves the
  /// wait to it. One that waits already returns with the next visit: release_waiting. Any thread.
  virtual void hold() {}
  virtual void go_on() {}

  /// What the replicas share, the server's part too: copies. When all replicas have been stopped and nobody visits.
  /// `now`: seconds on the hubs' clock; times that are yet to come are kept as seconds from then.
  PolicyState state(double now);
  /// Once, before the hubs' world runs. Errors (user): the state is of another policy or other options.
  void resume(const PolicyState& saved, double now);

 protected:
  /// Names all values of what is shared.
  virtual void fields(StateFields& fields, double now) {}
};

/// A kind of update policy: what makes a policy from the keys of a plan's agreement.
struct PolicyKind {
  const char* name;
  const char* description;  ///< one line
  /// The policy with the options that `update`, an [update] table, gives. Marks the keys that it takes as read. Errors
  /// (user): bad values, a local optimizer that the policy cannot work with.
  std::unique_ptr<UpdatePolicy> (*read)(const ConfigTable& update, const RunFacts& facts);
};

/// Adds a policy of your own, which outlives the program's use of Trireme, to those that plans may name. By static
/// initialisation or at the start of main. Returns true. Errors (user): the policies have been listed already; when
/// they are listed, also a name that exists.
bool register_update_policy(const PolicyKind& policy);

}  // namespace trireme
