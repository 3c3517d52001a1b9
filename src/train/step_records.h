// Where the workers of a run post what they did, and the coordinating thread reads it in order.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "runtime/step.h"

namespace trireme {

/// What all workers posted for one step, or for one evaluation after it.
struct StepRecord {
  bool evaluation = false;
  int64_t step = 0;                       ///< steps done
  std::vector<StepOutcome> outcomes;      ///< by rank
  std::vector<double> load_seconds = {};  ///< by rank: loading samples or waiting for them (part of compute_seconds)
  int plan = 0;                           ///< how often the run had changed its plan
  // Of replicas that step by themselves; `outcomes` has one entry then, of all workers, whose seconds count from the
  // run's first step.
  int replica = 0;
  int64_t samples = 0;                            ///< of the step; of an evaluation: that all replicas had seen
  double seconds = 0;                             ///< of an evaluation: when its weights were those of the run
  double loss_sum() const;                        ///< added in rank order: reproducible
  std::map<std::string, double> metrics() const;  ///< likewise
  double begin() const;                           ///< earliest
  double end() const;                             ///< latest
};

/// Thread-safe. Entries come out complete (all ranks) and in order; a step's evaluation follows the step. A change of
/// plan may change the number of ranks.
class StepRecords {
 public:
  explicit StepRecords(int ranks) : ranks_(ranks) {}
  void post(int rank, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds = 0);
  /// A complete entry, which comes out in the order of such calls. Does not wake the reader: it must not take a core
  /// from training.
  void post_whole(StepRecord entry);
  /// What is posted from now on is under the run's next plan, of so many ranks. While no worker is in a step.
  void change_plan(int ranks);
  /// No more posts: readers get what is complete, then nothing.
  void close();
  /// The next complete entry; nullopt at the end. Waits at most `seconds`, then `timed_out` is set.
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
  std::vector<std::pair<int64_t, bool>> order_ TRIREME_GUARDED_BY(mutex_);  // as first posted
  size_t next_ TRIREME_GUARDED_BY(mutex_) = 0;
  bool closed_ TRIREME_GUARDED_BY(mutex_) = false;
};

/// Lets the coordinator end training after a step that all workers agree on: a worker asks before each step.
class StepGate {
 public:
  /// False: this step and later ones are not to be run.
  bool enter(int64_t step);
  /// Ends after the newest step that any worker has begun.
  void stop();

  /// As stop, until reopened.
  void pause();
  /// Once all workers have been refused a step. False: it has been stopped.
  bool reopen();

  /// The links are to be measured before the first step that no worker has begun.
  void request_probe();
  bool probes_before(int64_t step);

 private:
  Mutex mutex_;
  int64_t newest_ TRIREME_GUARDED_BY(mutex_) = -1;
  int64_t end_ TRIREME_GUARDED_BY(mutex_) = INT64_MAX;
  bool stopped_ TRIREME_GUARDED_BY(mutex_) = false;
  int64_t probe_ TRIREME_GUARDED_BY(mutex_) = -1;  // before this step
};

}  // namespace trireme
