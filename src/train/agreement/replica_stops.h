// Decides where all replicas of a run stop between two of their steps: for a checkpoint, or for an end that the user or
// the time limit requests.
//
// By steps: replicas that can be stopped after equally many steps stop that way. The step of a checkpoint follows from
// the experiment. The step of an end is chosen beyond what any replica has reached; replicas that are processes agree
// on it when they have exchanged weights.
//
// By samples: this holds for replicas that wait for the rounds of others (UpdatePolicy::Stops::held), that make
// different numbers of steps, or that wait for no other replica. They stop between any two steps, as soon as all
// together have seen enough samples. No replica has to catch up with the others. Replicas that have made their last
// step wait at the common stop. If replicas are processes, the process of the first replica decides; its answers to the
// others' reports announce the stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/mutex.h"
#include "trireme/hub.h"
#include "trireme/policy.h"

namespace trireme {

struct ReplicaStopOptions {
  int replicas = 1;
  bool equal_steps = true;          ///< all replicas make equally many steps
  bool all_here = true;             ///< replicas are threads of this process; otherwise processes
  bool can_end = false;             ///< an end may be requested
  int64_t checkpoint_steps = 0;     ///< between two checkpoints, by steps; 0: no checkpoints
  int64_t checkpoint_samples = 0;   ///< between two checkpoints, by samples of all replicas
  std::vector<int64_t> begun = {};  ///< by replica: steps of an earlier run
};

/// Thread-safe. "Leader": called by the first worker of a replica.
class ReplicaStops {
 public:
  /// `update` must outlive this object. `samples`: the number that all replicas have seen so far.
  ReplicaStops(UpdatePolicy& update, const ReplicaStopOptions& options, int64_t samples);

  bool by_samples() const { return by_samples_; }
  /// True if the replicas come to common stops at all, by samples.
  bool have_common_stops() const { return by_samples_ && (writes() || options_.can_end); }
  bool writes() const { return options_.checkpoint_steps > 0; }

  /// Returns the number of samples of all replicas at the first checkpoint after `samples`, by samples; 0: no
  /// checkpoints.
  int64_t next_after(int64_t samples) const;

  /// Leader. Call it after each step that was made, with the replica's steps so far and the samples of all replicas.
  void note(int replica, int64_t steps, int64_t samples);
  /// Requests that the run ends at the next common stop. `decides`: the first replica is in this process. Returns false
  /// if there is no such stop, or if another process decides; that one must then be told (takes_request_to_tell).
  bool end(bool decides);
  /// Leader. If another process decides, returns true once after end(): the leader must then report the request to that
  /// process.
  bool takes_request_to_tell();
  /// True if the replicas have ended at a common stop.
  bool has_ended() const { return has_ended_; }

  // -- by steps; all workers of a replica get the same answer after their step number `step`

  bool ends_after(int64_t step) const { return step == last_step_; }
  bool writes_after(int64_t step) const {
    return writes() && (step % options_.checkpoint_steps == 0 || ends_after(step));
  }
  /// True if the leaders have to agree, by calling agrees_to_end.
  bool ends_at_exchanges() const { return !by_samples_ && options_.can_end && !options_.all_here; }
  /// Leader. Call it in a step in which all replicas have exchanged. Returns true if the run ends after that step.
  bool agrees_to_end(Hub& hub);

  // -- by samples

  /// Number of the newest common stop that was requested, from 1; 0: none yet.
  int64_t wanted() const { return wanted_; }
  /// Leader, in a process that does not decide: takes the number that the deciding process has announced as its
  /// wanted().
  void hear(int64_t wanted) { wanted_ = wanted; }
  /// Leader. Call it between two steps. True if the replica must come to the common stop now. `held`: by the policy.
  bool is_due(bool held) const { return have_common_stops() && (held || wanted_ > made_); }
  /// Leader. Waits until all replicas have come. `is_done`: this replica makes no more steps. Returns true if all
  /// replicas are done.
  bool come(Hub& hub, ReplicaPolicy& policy, bool is_done);
  /// Leader, after come(). Waits until all replicas have finished what they stopped for. Returns true if the run ends
  /// here.
  bool part(Hub& hub);

 private:
  int64_t curve_points() const TRIREME_REQUIRES(mutex_);
  void want_if_possible() TRIREME_REQUIRES(mutex_);

  UpdatePolicy& update_;
  const ReplicaStopOptions options_;
  const bool by_samples_;
  std::atomic<int64_t> last_step_{std::numeric_limits<int64_t>::max()};
  std::atomic<bool> ends_{false}, has_ended_{false}, must_tell_{false}, has_told_{false};
  std::atomic<int64_t> wanted_{0};  ///< number of a common stop
  std::atomic<int64_t> made_{0};    ///< common stops to which all replicas have come
  Mutex mutex_;
  std::vector<int64_t> steps_ TRIREME_GUARDED_BY(mutex_);  // by replica, including those of an earlier run
  bool wishes_ TRIREME_GUARDED_BY(mutex_) = false;         // by samples: stop the replicas as soon as possible
  int64_t next_samples_ TRIREME_GUARDED_BY(mutex_) = 0;    // samples at the next checkpoint, by samples
  int64_t last_point_ TRIREME_GUARDED_BY(mutex_) = 0;      // points of the curve at the last stop
};

}  // namespace trireme
