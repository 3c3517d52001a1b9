// Computes the row of the comparison from the workers' posts.
#pragma once

#include <map>
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
  /// The data on which the metrics of evaluations depend.
  struct Goal {
    LearningTask task = LearningTask::classification;
    int64_t classes = 0;
  };

  /// `replicas`: the number of replicas that step on their own; 0: all workers step together.
  Summary(const Experiment& experiment, const Goal& goal, int devices, int64_t train_samples, int64_t test_samples,
          int64_t total_steps, int replicas = 0);

  /// Call it before the first step if the run resumes. `samples`, `seconds` and `step` are those of the earlier run.
  void go_on_from(int64_t samples, double seconds, int64_t step, int64_t open_steps = 0);
  /// Call it likewise if an earlier run has reached the target.
  void note_reached(const ToTarget& before) { reached_before_ = before; }
  /// Adds a training step of `samples`, made with `learning_rate`, and returns its curve point. Time between two steps,
  /// for example for a change of plan, belongs to the later step. With replicas, a curve point consists of as many
  /// steps as there are replicas, in the order in which they ended; nullopt if the entry did not complete one. Its
  /// loss, learning rate and norm of the gradient are means over these steps.
  std::optional<CurvePoint> add_step(const StepRecord& entry, int64_t samples, double learning_rate = 0);
  EvaluationPoint add_evaluation(const StepRecord& entry);
  double training_seconds() const { return seconds_; }
  double last_step_seconds() const { return steps_.empty() ? 0 : steps_.back(); }

  /// Fills in everything measured so far.
  void write(RunResult& result) const;
  /// The same for replicas, with the counts of their exchanges. `inner`: by worker, if replicas have several workers.
  void write(std::span<const HubCounts> counts, RunResult& result, std::span<const InnerWork> inner = {}) const;

 private:
  /// State of replicas that step on their own, on their hub's clock.
  struct Replicas {
    std::vector<double> last_end;  ///< by replica
    int64_t steps_before = 0;      ///< steps of the curve from an earlier run
    double seconds_before = 0;     ///< seconds from an earlier run
    int open = 0;                  ///< steps in the curve's next point
    int open_here = 0;             ///< those that this run has made
    int64_t open_samples = 0;
    double open_loss = 0;
    double open_rate = 0;           ///< sum of the steps' learning rates
    double open_norm = 0;           ///< sum of the norms of their gradients
    bool open_has_norms = true;     ///< of all of them
    std::vector<int> of_step = {};  ///< the replica that made the step, by place in steps_
  };
  /// Squared norm of one batch's gradient, added up over the workers that have updated their weights with it.
  struct Squares {
    double sum = 0;
    size_t workers = 0;
  };
  std::optional<CurvePoint> add_replica_step(const StepRecord& entry, double learning_rate);
  void open_point();
  std::optional<double> gradient_norm_after(const StepRecord& entry);
  std::vector<double> replica_steps(int64_t skipped) const;
  void write_curve(RunResult& result) const;
  void write_devices(std::span<const HubCounts> counts, std::span<const InnerWork> inner, double seconds,
                     RunResult& result) const;

  const Experiment& experiment_;
  Goal goal_;
  int devices_;  // largest number of any plan of the run
  int64_t train_samples_, test_samples_, total_steps_;
  int64_t samples_ = 0;
  double seconds_ = 0;         // training only
  double last_end_ = -1;       // of the previous step; -1 after an evaluation and at the start
  std::vector<double> steps_;  // seconds of each
  std::vector<double> compute_, load_, exposed_, hidden_;  // sums per device, after warm-up
  double measured_seconds_ = 0;
  int64_t measured_samples_ = 0;
  int64_t bytes_ = 0;
  std::vector<double> core_steps_;  // CoreTimes::mean of all workers, of each step after warm-up that has any
  NoiseScaleEstimator noise_scale_;
  std::map<int64_t, Squares> squares_;  // by step of batches that some workers have not finished yet
  int plan_ = 0;                        // of the newest step
  std::vector<CurvePoint> curve_;
  std::vector<EvaluationPoint> evaluations_;
  std::optional<ToTarget> reached_before_;  ///< by an earlier run
  std::optional<Timeline> timeline_;
  Replicas replicas_;
};

/// Returns the number of first steps that are left out of step times, because caches, thread pools and allocators still
/// settle.
int64_t warmup_steps(int64_t total_steps);

}  // namespace trireme
