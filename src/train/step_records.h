// The records to which the workers of a run post their outcomes, and which the coordinating thread reads in order.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "runtime/step.h"

namespace trireme {

/// The posts of all workers for one step, or for one evaluation after it.
struct StepRecord {
  bool evaluation = false;
  int64_t step = 0;                       ///< steps done
  std::vector<StepOutcome> outcomes;      ///< by rank
  std::vector<double> load_seconds = {};  ///< by rank: loading samples or waiting for them (part of compute_seconds)
  int plan = 0;                           ///< number of plan changes before this step
  // Only for replicas that step on their own. `outcomes` then has one entry for all workers, and its seconds count from
  // the run's first step.
  int replica = 0;
  int64_t samples = 0;  ///< of the step; of an evaluation: samples that all replicas had seen
  double seconds = 0;   ///< of an evaluation: the time at which its weights were taken
  /// Of an evaluation of replicas that keep local parameters, in place of `outcomes`: by replica, those of its own
  /// model.
  std::map<int, std::vector<StepOutcome>> own = {};
  double loss_sum() const;                        ///< added in rank order: reproducible
  std::map<std::string, double> metrics() const;  ///< likewise
  double begin() const;                           ///< earliest
  double end() const;                             ///< latest
};

/// Sums over the steps of a worker whose replica has several workers; exchanges of the update policy are not included.
struct InnerWork {
  double compute_seconds = 0;  ///< without loading samples
  double exposed_seconds = 0;  ///< StepOutcome::exposed_seconds
  int64_t bytes_sent = 0;
};

/// Thread-safe. Entries are returned complete (all ranks) and in order; a step's evaluation follows the step. A change
/// of plan may change the number of ranks.
class StepRecords {
 public:
  explicit StepRecords(int ranks) : ranks_(ranks) {}
  /// Called with each evaluation that post() completes, by the thread that completes it, before readers get it. Set it
  /// before the first post. It must not use this object.
  std::function<void(const StepRecord&)> on_evaluation;
  void post(int rank, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds = 0);
  /// Posts a complete entry. Such entries are returned in the order of the calls. Does not wake the reader, because the
  /// reader must not take a core from training.
  void post_whole(StepRecord entry);
  /// Posts from now on belong to the run's next plan, which has `ranks` ranks. Call it while no worker is in a step.
  void change_plan(int ranks);
  /// Ends posting: readers get the complete entries, then nothing.
  void close();
  /// Returns the next complete entry; nullopt at the end. Waits at most `seconds`, after which `timed_out` is set.
  std::optional<StepRecord> next(double seconds, bool& timed_out);

 private:
  struct Draft {
    int posted = 0;
    StepRecord entry;
    bool is_complete() const { return posted == int(entry.outcomes.size()); }
  };
  Mutex mutex_;
  int ranks_ TRIREME_GUARDED_BY(mutex_);
  int plan_ TRIREME_GUARDED_BY(mutex_) = 0;
  ConditionVariable changed_;
  std::map<std::pair<int64_t, bool>, Draft> drafts_ TRIREME_GUARDED_BY(mutex_);
  std::deque<StepRecord> whole_ TRIREME_GUARDED_BY(mutex_);
  std::vector<std::pair<int64_t, bool>> order_ TRIREME_GUARDED_BY(mutex_);  // in the order of the first posts
  size_t next_ TRIREME_GUARDED_BY(mutex_) = 0;
  bool closed_ TRIREME_GUARDED_BY(mutex_) = false;
};

/// Lets the coordinator end training after a step on which all workers agree: each worker calls enter() before each
/// step.
class StepGate {
 public:
  /// Returns false if this step and later ones must not be run.
  bool enter(int64_t step);
  /// Ends training after the newest step that any worker has begun.
  void stop();

  /// The same, until reopen().
  void pause();
  /// Call it after all workers have been refused a step. Returns false if stop() has been called.
  bool reopen();

  /// Requests a measurement of the links before the first step that no worker has begun.
  void request_probe();
  bool probes_before(int64_t step);

 private:
  Mutex mutex_;
  int64_t newest_ TRIREME_GUARDED_BY(mutex_) = -1;
  int64_t end_ TRIREME_GUARDED_BY(mutex_) = INT64_MAX;
  bool stopped_ TRIREME_GUARDED_BY(mutex_) = false;
  int64_t probe_ TRIREME_GUARDED_BY(mutex_) = -1;  // measure before this step
};

}  // namespace trireme
