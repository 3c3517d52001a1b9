// How a running training tells the outside: progress bars, files, a parent process.
#pragma once

#include <cstdint>

#include "metrics/result.h"
#include "trireme/tensor_map.h"

namespace trireme {

struct StepReport {
  CurvePoint point;
  int64_t total_steps = 0;
  double step_seconds = 0;
  double samples_per_second = 0;  ///< so far, evaluation excluded
  double seconds_left = 0;        ///< estimate; evaluation included
};

/// Called from the training's coordinating thread, never concurrently.
class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  virtual void on_step(const StepReport&) {}
  virtual void on_evaluation(const EvaluationPoint&) {}
  /// The trained weights as a file is to hold them (train/trained_weights.h), once, after the last step. What it throws
  /// becomes a warning of the run.
  virtual void on_weights(const Weights&) {}
  /// A line for the user while the run goes on: a checkpoint that could not be written.
  virtual void on_notice(const std::string&) {}
};

}  // namespace trireme
