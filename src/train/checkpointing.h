// The coordinating thread's part in a run's checkpoints: what the workers handed over gets the numbers of its step and
// is written down by a thread of its own while the run goes on.
#pragma once

#include <filesystem>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_use.h"
#include "metrics/result.h"
#include "train/observer.h"
#include "train/run.h"

namespace trireme {

/// Used by one thread. One checkpoint is written at a time.
class Checkpointing {
 public:
  /// Makes the folder; an empty one: there are no checkpoints. References outlive it.
  Checkpointing(Run& run, const CheckpointUse& use, TrainObserver& observer);

  bool writes() const { return !folder_.empty(); }
  void after_step(const CurvePoint& point);
  void after_evaluation(const EvaluationPoint& point);
  /// Begins to write what has been handed over, notes what has been written. Waits for nothing.
  void poll();
  /// The same, and waits until all is written. The workers have ended.
  void finish();

  /// Why the run is to end; "": it is not.
  const std::string& failure() const { return failure_; }
  void write(RunResult& result) const;

 private:
  struct Facts {
    CurvePoint point;
    std::optional<EvaluationPoint> evaluation;
  };
  struct Outcome {
    CheckpointIndex index;  ///< with its files
    std::string failure;    ///< why there is no checkpoint; empty: there is one
    std::string untidy;     ///< why older ones were not removed
    double seconds = 0;
  };

  bool knows_all(const GatheredState& gathered) const;
  CheckpointIndex index_of(const GatheredState& gathered) const;
  void begin_writing();
  void note(Outcome outcome);
  Outcome write_down(const CheckpointIndex& index) const;

  Run& run_;
  const std::filesystem::path folder_;
  FileSystem& files_;
  TrainObserver& observer_;
  std::map<std::string, std::string> settings_;
  std::map<int64_t, Facts> facts_;         ///< by step: of those that are handed over, and of the newest
  std::optional<GatheredState> gathered_;  ///< taken from the workers; not to be changed while it is written
  std::vector<std::string> warnings_;
  std::string failure_;
  CheckpointReport report_;
  std::future<Outcome> writing_;  ///< last: its end is waited for first
};

}  // namespace trireme
