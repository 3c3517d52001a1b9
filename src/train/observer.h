// Receives the events of a training run: for progress bars, files and a parent process.
#pragma once

#include <cstdint>

#include "metrics/result.h"
#include "model/weights/weights.h"

namespace trireme {

struct StepReport {
  CurvePoint point;
  int64_t total_steps = 0;
  double step_seconds = 0;
  double samples_per_second = 0;  ///< so far, without evaluation
  double seconds_left = 0;        ///< estimate, with evaluation
};

/// Called from the training's coordinating thread, never concurrently.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepReport&) {}
  /// Asked again and again. True: the run ends after the step that the workers are in, however long that takes; its row
  /// is then interrupted.
  virtual bool has_enough() const { return false; }
  virtual void on_evaluation(const EvaluationPoint&) {}
  /// Called once, after the last step, with the trained weights in the form for a file (train/trained_weights.h). An
  /// exception becomes a warning of the run.
  virtual void on_weights(const Weights&) {}
  /// A line for the user during the run, for example that a checkpoint could not be written.
  virtual void on_notice(const std::string&) {}
};

}  // namespace trireme
