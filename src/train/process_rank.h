// A run in which every worker is a process: what the ranks tell each other besides what training needs.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/memory.h"
#include "train/step_records.h"
#include "trireme/communicator.h"

namespace trireme {

/// What LongWork (comm/flight_recorder.h) calls rank 0's writing of the last checkpoint when the others are gone.
inline constexpr const char* kSavingLastStep = "saving the last step";

/// One rank's part. Belongs to one thread at a time: the worker's while there is one, else the main thread; abort() and
/// the constants are for any. Rank 0 coordinates: it says which steps are run, and hears what came of them.
class ProcessRank {
 public:
  /// All ranks together: clocks are compared. `backend`: the world's, "gloo".
  ProcessRank(std::unique_ptr<Communicator> world, std::string backend);

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  Communicator& world() { return *world_; }
  const std::string& backend() const { return backend_; }
  /// That all processes together may use at once, counted once where they share them, and the machines that they are
  /// on.
  int cores() const { return cores_; }
  int machines() const { return machines_; }

  /// Over all ranks, for what a run carries from step to step: its messages have tags of their own.
  Communicator& states() { return *states_; }
  /// A communicator over all ranks for a worker; what it counts is training's alone. All ranks together.
  std::unique_ptr<Communicator> worker_communicator();

  /// Whether 0-based `step` of `steps` is to be run: as rank 0's `gate` decided when it began the step before, so that
  /// nobody waits for the answer; the gates of others are not asked. Steps are asked for in order.
  bool enters(StepGate& gate, int64_t step, int64_t steps);

  /// Rank 0 posts its own outcome and those of all others for what was posted before, of evaluations for this one: at
  /// that time they are there or about to be. Others send theirs and go on. All ranks post the same steps and
  /// evaluations.
  void post(StepRecords& records, int64_t step, bool evaluation, StepOutcome outcome, double load_seconds);

  /// Rank 0, in place of what others will not post any more. `losses`: by step done, by rank: StepOutcome::loss_sum. Of
  /// all else that they did nothing is known. False: something before the last step, or its loss, remains unknown; the
  /// last step's evaluation may.
  bool post_for_others(StepRecords& records, const std::map<int64_t, std::vector<double>>& losses);

  /// After the last post: rank 0 posts what is still to come and gets every rank's memory.
  void finish(StepRecords& records, std::vector<MemoryUse>& memory);

  /// This rank shall end: rank 0 hears of it with the next post. Thread-safe, as the next one.
  void ask_to_end() { asked_to_end_ = true; }
  /// Rank 0: one of the others that was asked to end; 0: none, as far as is known.
  int other_asked_to_end() const { return other_asked_; }

  /// First reason wins; ends all ranks, in whatever they are.
  void abort(const std::string& reason) { world_->abort(reason); }
  std::string abort_reason() const { return world_->abort_reason(); }

 private:
  void compare_clocks(const std::vector<std::string>& machines);
  void take_posts(StepRecords& records, size_t left);

  const std::unique_ptr<Communicator> world_, states_;
  const std::string backend_;
  int cores_ = 0, machines_ = 1;
  double clock_ahead_ = 0;  ///< seconds by which this machine's steady clock is ahead of rank 0's

  std::atomic<bool> asked_to_end_ = false;
  std::atomic<int> other_asked_ = 0;
  int64_t decided_ = -1;  ///< rank 0: the newest step that was decided on; -1: none
  bool ended_ = false;    ///< rank 0: `decided_` is refused

  /// Posts of others that rank 0 has not taken, one of each.
  struct Awaited {
    int64_t step = 0;
    bool evaluation = false;
    double begin = 0, end = 0;  ///< of its own
    int next = 1;               ///< the first whose post is outstanding
  };
  std::deque<Awaited> awaited_;
};

}  // namespace trireme
