// Where all replicas of a run stop between two of their steps: for a checkpoint, and for an end that the user or the
// clock asks for.
//
// By steps: replicas that can be stopped after equally many steps are. The step of a checkpoint follows from the
// experiment. The step of an end is chosen ahead of what any replica has reached; replicas that are processes agree on
// it when they have exchanged. By samples: replicas that wait for rounds of others (UpdatePolicy::Stops::held), make
// different numbers of steps, or wait for nobody and are threads of this process, are stopped wherever they are once
// all together have seen enough samples: none runs behind the others for it. Those that have made their last step stand
// by.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/mutex.h"
#include "update/hub.h"
#include "update/policy.h"

namespace trireme {

struct ReplicaStopOptions {
  int replicas = 1;
  bool equal_steps = true;          ///< all replicas make equally many
  bool all_here = true;             ///< replicas are threads of this process; else processes
  bool can_end = false;             ///< an end may be asked for
  int64_t checkpoint_steps = 0;     ///< between two checkpoints, by steps; 0: there are none
  int64_t checkpoint_samples = 0;   ///< likewise, by samples of all replicas
  std::vector<int64_t> begun = {};  ///< by replica: steps of an earlier run
};

/// Thread-safe. "Leader": called by the first worker of a replica.
class ReplicaStops {
 public:
  /// `update` outlives it. `samples`: that all replicas have seen so far.
  ReplicaStops(UpdatePolicy& update, const ReplicaStopOptions& options, int64_t samples);

  bool by_samples() const { return by_samples_; }
  /// Whether replicas come to a common place at all, by samples.
  bool meets() const { return by_samples_ && (writes() || options_.can_end); }
  bool writes() const { return options_.checkpoint_steps > 0; }

  /// Samples of all replicas at the first checkpoint after so many, by samples; 0: there are none.
  int64_t next_after(int64_t samples) const;

  /// Leader, after each step that was made: the replica's steps so far, and the samples of all replicas.
  void note(int replica, int64_t steps, int64_t samples);
  /// The run is to end at the next common place. `decides`: the first replica is here. False: there is no such place,
  /// or it is not for this process to say.
  bool end(bool decides);
  /// end() was refused, as another process decides; true once.
  bool takes_refused_end() { return is_refused_.exchange(false); }
  /// Whether the replicas have ended at such a place.
  bool has_ended() const { return has_ended_; }

  // -- by steps; the same answer for all workers of a replica, after its step number `step`

  bool ends_after(int64_t step) const { return step == last_step_; }
  bool writes_after(int64_t step) const {
    return writes() && (step % options_.checkpoint_steps == 0 || ends_after(step));
  }
  /// Whether the leaders have to agree, with the next function.
  bool ends_at_exchanges() const { return !by_samples_ && options_.can_end && !options_.all_here; }
  /// Leader, in a step in which all replicas have exchanged: whether the run ends after it.
  bool agrees_to_end(Hub& hub);

  // -- by samples

  /// Leader, between two steps: whether the replica is to come to the common place now. `held`: by the policy.
  bool is_due(bool held) const { return meets() && (held || is_wanted_); }
  /// Leader. Waits until all replicas have come; `is_done`: this one makes no more steps. Whether none does.
  bool come(Hub& hub, ReplicaPolicy& policy, bool is_done);
  /// Leader, after that: waits until all replicas are through with what they came for. Whether the run ends here.
  bool part(Hub& hub);

 private:
  void want_if_possible() TRIREME_REQUIRES(mutex_);

  UpdatePolicy& update_;
  const ReplicaStopOptions options_;
  const bool by_samples_;
  std::atomic<int64_t> last_step_{std::numeric_limits<int64_t>::max()};
  std::atomic<bool> is_wanted_{false}, ends_{false}, has_ended_{false}, is_refused_{false};
  Mutex mutex_;
  std::vector<int64_t> steps_ TRIREME_GUARDED_BY(mutex_);  // by replica, with those of an earlier run
  bool wishes_ TRIREME_GUARDED_BY(mutex_) = false;         // to stop the replicas, by samples, as soon as they can be
  int64_t next_samples_ TRIREME_GUARDED_BY(mutex_) = 0;    // of the next checkpoint, by samples
};

}  // namespace trireme
