// The coordinating thread's part in a run's checkpoints. It adds the results of the step to the state that the workers
// handed over. A thread of its own writes the checkpoint while the run continues.
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
  /// Creates the folder. An empty `use.folder` means no checkpoints. References must outlive this object.
  Checkpointing(Run& run, const CheckpointUse& use, TrainObserver& observer, const EarlyStopping& stopping);

  bool writes() const { return !folder_.empty(); }
  void after_step(const CurvePoint& point);
  void after_evaluation(const EvaluationPoint& point);
  /// Starts writing a state that has been handed over, and records what has been written. Does not block.
  void poll();
  /// The same, and waits until everything is written. The workers must have ended.
  void finish();

  /// Returns why the run must end; "" if it need not.
  const std::string& failure() const { return failure_; }
  void write(RunResult& result) const;

 private:
  struct Facts {
    CurvePoint point;
    std::optional<EvaluationPoint> evaluation;
    ShownByEvaluations shown;
  };
  struct Outcome {
    CheckpointIndex index;  ///< including its files
    std::string failure;    ///< why there is no checkpoint; empty: there is one
    std::string untidy;     ///< why older checkpoints were not removed
    double seconds = 0;
  };

  bool knows_all(const GatheredState& gathered) const;
  CheckpointIndex index_of(const GatheredState& gathered) const;
  ShownByEvaluations shown() const { return {stopping_.state(), "", best_, reached_}; }
  void begin_writing();
  void note(Outcome outcome);
  Outcome write_down(const CheckpointIndex& index) const;

  Run& run_;
  const std::filesystem::path folder_;
  FileSystem& files_;
  TrainObserver& observer_;
  const EarlyStopping& stopping_;
  std::map<std::string, std::string> settings_;
  std::map<int64_t, Facts> facts_;         ///< by step: of the steps that are handed over, and of the newest step
  std::optional<EvaluationPoint> best_;    ///< of all evaluations, if the run restores its weights
  std::optional<TargetReached> reached_;   ///< by the first evaluation that reached the target
  std::optional<GatheredState> gathered_;  ///< taken from the workers; must not change while it is written
  std::vector<std::string> warnings_;
  std::string failure_;
  CheckpointReport report_;
  /// Last member: its destructor waits for the writing thread before the others are destroyed.
  std::future<Outcome> writing_;
};

}  // namespace trireme
