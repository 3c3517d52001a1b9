// When and how replicas agree on weights. docs/updates.md describes each policy, its source and its cost.
//
// Synchronous training (a gradient of all samples in every step) needs no policy: it is a plan's data axis, with any
// optimizer.
//
// What a replica does, on one thread (its first worker's, while its other workers wait):
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
// If a call reports that it wrote weights, the owner of any other copy of them (in a compute dtype, sharded) must
// update that copy.
//
// Checkpoints. First all replicas are stopped, as UpdatePolicy::stops allows (after update.hold(), each calls
// policy->release_waiting()). Then each calls policy->state(state) on its thread. After all have, one thread calls
// update.state(now) and update.go_on(). To resume: make a new policy with the same options, call update.resume(saved,
// now) before the hubs' world runs, and on each replica policy->resume(saved, state) instead of begin, with the
// weights, moments and statistics that `state` had then; step numbers continue. If the result does not depend on the
// order of arrivals, it equals that of an uninterrupted run bit for bit. A replica that calls begin while the server is
// resumed has no state of its own: it begins with the server's weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/hub.h"

namespace trireme {

class ConfigTable;

/// What policies must know about a run to accept it.
struct RunFacts {
  int replicas = 1;
  uint64_t seed = 0;
  /// True if the local optimizer is w -= learning rate * g (g may include weight decay): no momentum, no moments.
  bool plain_sgd = false;
};

/// One step of a replica.
struct StepFacts {
  int64_t step = 0;          ///< 0-based number among the replica's own steps
  int64_t samples = 0;       ///< number of samples in the step
  double learning_rate = 0;  ///< the local optimizer's learning rate in the step
  /// True if the replica completes a pass over its share of the samples with this step.
  bool ends_epoch = false;
  /// By ReplicaState::tables: the rows that the step reads, each once, in any order.
  std::vector<std::vector<int64_t>> rows = {};
};

// -- the state of a policy as plain values, for checkpoints: counters, and tensors whose meaning does not depend on how
// a plan, a server's shards or a policy's fragments cut the weights

/// What all replicas share of a policy, or one replica's part. Tensors are its own memory. Random numbers are drawn by
/// counter, so the integers here are the only random state.
struct PolicyState {
  std::string policy;                                    ///< UpdatePolicy::description(); empty for a replica's part
  std::map<std::string, std::vector<int64_t>> integers;  ///< one number or a list
  std::map<std::string, std::vector<double>> reals;      ///< finite
  /// Flat: a value per element of ReplicaState::weights, bucket after bucket. float or double.
  std::map<std::string, at::Tensor> weights;
  std::map<std::string, std::vector<RunningStatistics>> statistics;  ///< like ReplicaState::statistics
};

/// Saves the values of a policy to a PolicyState, or restores them from one, so that a policy names each value only
/// once. Errors (user) when restoring: the state lacks the value, or it has another length or dtype.
class StateFields {
 public:
  /// Saves. `state` must outlive this object; it has its tensors after done().
  explicit StateFields(PolicyState& state) : out_(&state), state_(state) {}
  /// Restores. `where` names the state in messages. `first_element` is the first element of the weights to be read.
  StateFields(const PolicyState& state, std::string where, int64_t first_element = 0)
      : state_(state), where_(std::move(where)), first_element_(first_element) {}

  bool reads() const { return out_ == nullptr; }
  const PolicyState& state() const { return state_; }

  void value(const std::string& name, int64_t& value);
  void value(const std::string& name, int& value);
  void value(const std::string& name, bool& value);
  void value(const std::string& name, double& value);
  /// When restoring, a non-empty list must have as many elements as the state's.
  void value(const std::string& name, std::vector<int64_t>& values);
  void value(const std::string& name, std::vector<double>& values);

  /// Parts of the weights' elements, in their order. A later call with the same name continues where the last one
  /// ended.
  void weights(const std::string& name, std::span<at::Tensor> parts);
  /// Optional parts: none, or as many as `like`. When restoring, new parts are made like those of `like`, except for
  /// `dtype`.
  void weights_if_any(const std::string& name, std::vector<at::Tensor>& parts, std::span<const at::Tensor> like,
                      std::optional<at::ScalarType> dtype = std::nullopt);
  /// When restoring, replaces the present statistics.
  void statistics(const std::string& name, std::vector<RunningStatistics>& statistics);
  /// As statistics(), but the state's must have the shapes of the present ones.
  void statistics_like(const std::string& name, std::vector<RunningStatistics>& statistics);

  /// Call it after the last value. Errors (user) when restoring: the state has values that were not requested.
  void done();

  /// Throws a user error: value `what` of the state does not fit, for the reason `why`.
  [[noreturn]] void refuse(const std::string& what, std::string why) const;

 private:
  template <class T>
  void list(std::map<std::string, std::vector<T>>* out, const std::map<std::string, std::vector<T>>& in,
            const std::string& name, std::vector<T>& values);

  PolicyState* const out_ = nullptr;
  const PolicyState& state_;
  const std::string where_;
  const int64_t first_element_ = 0;
  std::map<std::string, std::vector<at::Tensor>> written_;  ///< weights to be saved, until done()
  std::map<std::string, int64_t> next_element_;             ///< by name: next element of the weights that are read
  std::set<std::string> used_;                              ///< names of other values that were read
};

// -- the policy

/// One replica's part of a policy. Used by the replica's thread only, like its hub, which must outlive it. Calls throw
/// the hub's errors.
class ReplicaPolicy {
 public:
  explicit ReplicaPolicy(Hub& hub) : hub_(hub) {}
  virtual ~ReplicaPolicy() = default;

  /// Called by all replicas before the first step. All then have the same weights and statistics, those of the first
  /// replica.
  virtual void begin(ReplicaState& /*state*/) {}

  struct Before {
    bool wrote = false;  ///< true if it wrote weights
    bool stop = false;   ///< this replica makes no more steps, not even this one; call finish next
    /// as requested by UpdatePolicy::hold: nothing has happened; make the same call again when the run continues
    bool held = false;
  };
  virtual Before before_step(const StepFacts& /*facts*/, ReplicaState& /*state*/) { return {}; }

  /// Returns true if it wrote weights. If the policy does not communicate, its cost does not grow with the weights,
  /// unless the policy's documentation says so.
  virtual bool after_step(const StepFacts& facts, ReplicaState& state) = 0;

  /// Exchanges what was not exchanged yet. Called between the last step and finish, for a replica whose state must be
  /// taken while other replicas still train; otherwise finish does it. If it waits for other replicas,
  /// UpdatePolicy::hold ends the wait, and it is called again when the run continues.
  virtual void settle(ReplicaState& /*state*/) {}

  /// Called by all replicas after the last step. Exchanges what was not exchanged yet. Afterwards all replicas have the
  /// same values, the run's result.
  virtual void finish(ReplicaState& state) = 0;

  /// Returns the values that an evaluation between two steps uses: the central values if the policy has them, otherwise
  /// the replica's own. Unmetered. If the policy evaluates_together, all replicas must call it after the same step;
  /// otherwise any replica may call it alone.
  virtual ModelValues values_for_evaluation(ReplicaState& state) = 0;

  /// Called instead of all further calls if the replica has failed for good (Hub::is_lost). Notifies the server if
  /// necessary.
  virtual void leave(ReplicaState& /*state*/) {}

  /// Called after UpdatePolicy::hold by a stopped replica: replicas that wait at the server then return as held.
  /// Unmetered.
  virtual void release_waiting() {}

  /// Returns this replica's part of the state, without `state` itself, as copies. Call it between two steps or after
  /// settle, when all replicas have been stopped. An exchange in progress is waited for, and enters the weights at its
  /// normal time.
  PolicyState state(const ReplicaState& state);
  /// Call it instead of begin, with the contents of `state` at the time of the checkpoint, on all replicas. A replica
  /// that joined late (Hub::joined_late) begins without a saved part. Errors (user): the part is of another replica,
  /// policy or number of replicas, or of weights of another size.
  void resume(const PolicyState& saved, ReplicaState& state);

 protected:
  /// Names all values of the part, for saving or restoring. When restoring, it is called after begin.
  virtual void fields(StateFields& /*fields*/, const ReplicaState& /*state*/) {}
  /// In begin: true if the part will be restored.
  bool resumes() const { return resumes_; }

  Hub& hub_;

 private:
  bool resumes_ = false;
};

/// A policy of a run, shared by its replicas. Thread-safe. Belongs to one run, because a server holds weights.
class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;
  /// Name and options in one line. Two policies with equal descriptions behave equally.
  virtual std::string description() const = 0;
  /// The server for the hubs' world; null: none. It exists as long as this object.
  virtual ShardServer* server() { return nullptr; }
  virtual bool evaluates_together() const { return false; }
  /// What happens to the run if a replica is lost in the middle.
  enum class WhenLost {
    ends,        ///< the run ends, because every exchange involves all replicas
    goes_on,     ///< the other replicas continue
    may_return,  ///< the other replicas continue, and the lost one may return
  };
  virtual WhenLost when_lost() const { return WhenLost::ends; }
  bool outlives_replicas() const { return when_lost() != WhenLost::ends; }
  /// True if a replica with values that are not finite does not affect the others' values.
  virtual bool refuses_broken_values() const { return false; }
  /// True if replicas write to shared memory without an exchange. Only threads of one process can; links have no
  /// effect.
  virtual bool shares_memory() const { return false; }
  /// Why a run cannot end after a given number of steps, and what to do instead.
  struct StepsRefusal {
    std::string why, next;
  };
  /// Set if a run under this policy cannot end after `steps` steps. `name`: the policy as the user calls it.
  virtual std::optional<StepsRefusal> refuses_steps(int64_t /*steps*/, const std::string& /*name*/) const { return {}; }
  /// The parameters and running statistics that stay with each replica, in the user's words: "batch-norm" (all layers
  /// with running statistics) or names of parameters, of which the last character may be a * for any rest. Empty: all
  /// are exchanged.
  virtual std::vector<std::string> local_parameters() const { return {}; }
  /// Says where the local parameters lie in a replica's state. Called before for_replica if there are any.
  virtual void set_local(const LocalParts& /*parts*/) {}
  /// True if the policy needs ReplicaState::tables and StepFacts::rows. The run then computes them before each step,
  /// which takes time.
  virtual bool takes_rows() const { return false; }
  /// Makes one replica's part. Called once per replica, on its thread; `hub` outlives the part.
  virtual std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) = 0;

  /// The points at which all replicas can be stopped for a checkpoint. No replica then waits in a call for a stopped
  /// one.
  enum class Stops {
    /// all after the same number of steps; if the replicas' epochs differ in their number of steps, all at the end of
    /// the same epoch
    together,
    anywhere,  ///< each between any two of its steps, when every replica has made a step, or after settle
    held,      ///< each between any two of its steps, while hold() is in force
  };
  virtual Stops stops() const { return Stops::together; }
  /// Minimum number of steps that a replica makes before it can be stopped.
  virtual int64_t steps_before_stops() const { return 1; }
  /// From now on no replica waits for the results of other replicas' steps: before_step returns `held`, and after_step
  /// leaves the wait to before_step. A replica that already waits returns at the next visit: release_waiting.
  /// Thread-safe.
  virtual void hold() {}
  virtual void go_on() {}

  /// Returns what the replicas share, including the server's part, as copies. Call it when all replicas have been
  /// stopped and none visits. `now`: seconds on the hubs' clock; future times are saved relative to it.
  PolicyState state(double now);
  /// Call it once, before the hubs' world runs. Errors (user): the state is of another policy or of other options.
  void resume(const PolicyState& saved, double now);

 protected:
  /// Names all shared values, for saving or restoring.
  virtual void fields(StateFields& /*fields*/, double /*now*/) {}
};

/// A kind of update policy. `read` makes a policy from the keys of a plan's agreement.
struct PolicyKind {
  const char* name;
  const char* description;  ///< one line
  /// Returns the policy with the options of the [update] table `update`. Marks the keys that it uses as read. Errors
  /// (user): bad values, a local optimizer that the policy cannot work with.
  std::unique_ptr<UpdatePolicy> (*read)(const ConfigTable& update, const RunFacts& facts);
};

/// Adds a policy of your own to those that plans may name. `policy` must outlive the program's use of Trireme. Call it
/// by static initialisation or at the start of main; not thread-safe. Returns true. Errors (user): the list of policies
/// has been read already. A name that exists is reported when the list is read.
bool register_update_policy(const PolicyKind& policy);

}  // namespace trireme
