// From what the workers posted to the row of the comparison.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cost/noise_scale.h"
#include "experiment/experiment.h"
#include "metrics/result.h"
#include "train/step_records.h"
#include "trireme/hub.h"

namespace trireme {

/// Accumulates entries in order. Not thread-safe.
class Summary {
 public:
  /// What decides the metrics of evaluations.
  struct Goal {
    LearningTask task = LearningTask::classification;
    int64_t classes = 0;
  };

  /// `replicas`: that step by themselves; 0: all workers step together.
  Summary(const Experiment& experiment, const Goal& goal, int devices, int64_t train_samples, int64_t test_samples,
          int64_t total_steps, int replicas = 0);

  /// The run goes on from one that had seen so many samples in so many seconds and steps of training. Before the first
  /// step.
  void go_on_from(int64_t samples, double seconds, int64_t step, int64_t open_steps = 0);
  /// The curve point of a training step of `samples`. What happens between two steps, a change of plan for one, belongs
  /// to the later one. Of replicas as many steps as there are replicas make one, in the order in which they ended;
  /// nullopt: the entry did not end one.
  std::optional<CurvePoint> add_step(const StepRecord& entry, int64_t samples);
  EvaluationPoint add_evaluation(const StepRecord& entry);
  double training_seconds() const { return seconds_; }
  double last_step_seconds() const { return steps_.empty() ? 0 : steps_.back(); }

  /// Fills in everything measured so far.
  void write(RunResult& result) const;
  /// The same of replicas, with what their exchanges took.
  void write(std::span<const HubCounts> counts, RunResult& result) const;

 private:
  /// Of replicas that step by themselves, on their hub's clock.
  struct Replicas {
    std::vector<double> last_end;  ///< by replica
    int64_t steps_before = 0;      ///< of the curve, by an earlier run
    double seconds_before = 0;     ///< likewise
    int open = 0;                  ///< steps of the curve's next point
    int64_t open_samples = 0;
    double open_loss = 0;
  };
  std::optional<CurvePoint> add_replica_step(const StepRecord& entry);
  void write_curve(RunResult& result) const;

  const Experiment& experiment_;
  Goal goal_;
  int devices_;  // the most that any plan of the run has had
  int64_t train_samples_, test_samples_, total_steps_;
  int64_t samples_ = 0;
  double seconds_ = 0;         // training only
  double last_end_ = -1;       // of the previous step; -1 after an evaluation and at the start
  std::vector<double> steps_;  // seconds of each
  std::vector<double> compute_, load_, exposed_, hidden_;  // sums per device, after warm-up
  double measured_seconds_ = 0;
  int64_t measured_samples_ = 0;
  int64_t bytes_ = 0;
  NoiseScaleEstimator noise_scale_;
  std::vector<CurvePoint> curve_;
  std::vector<EvaluationPoint> evaluations_;
  std::optional<Timeline> timeline_;
  Replicas replicas_;
};

/// Steps at the start that step times leave out: caches, thread pools and allocators settle.
int64_t warmup_steps(int64_t total_steps);

}  // namespace trireme
