// Global batches of an experiment: which samples, in which shape, as workers load them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "data/sampler.h"
#include "data/text/repadded_set.h"
#include "experiment/loader.h"
#include "experiment/run_spec.h"
#include "plan/plan.h"
#include "runtime/step.h"

namespace trireme {

/// The planned samples, loaded by whoever asks for them. The batch keeps what it needs alive; its load is safe from
/// many threads.
Batch batch_from(PlannedBatch plan);

/// Keyed by the data, seed and epoch, never by a plan. Training: shuffled, a stream row by row. Evaluation: in order,
/// each sample once; a stream row by row, in whole batches.
///
/// With Experiment::pad_to_multiple_of a batch holds sentences of similar length (SampleOrder::bucketed; evaluation:
/// all of them in the order of their lengths) and is padded to its own longest, rounded up: it comes with the
/// experiment's model for that shape. Losses and metrics are those that more padding would give, up to rounding.
/// Thread-safe.
class Batches {
 public:
  /// Arguments outlive it. Errors: those of BatchSampler.
  Batches(const Experiment& experiment, const TaskData& data);

  const BatchSampler& sampler() const { return sampler_; }
  /// The batch of 0-based training step `step`.
  PlannedBatch training(int64_t step) const;
  /// Batches of one evaluation, and samples in all of them.
  int64_t evaluations() const { return int64_t(test_.size()); }
  int64_t test_samples() const;
  PlannedBatch evaluation(int64_t k) const;

 private:
  PlannedBatch in_shape(const std::shared_ptr<const Dataset>& set, std::vector<int64_t> indices,
                        const Draw& draw) const;
  std::shared_ptr<const Model> model_for(const RepaddedSet& set, const PartLengths& parts) const;

  const Experiment& experiment_;
  const TaskData& data_;
  BatchSampler sampler_;
  std::vector<std::vector<int64_t>> test_;  ///< samples of each evaluation batch

  mutable Mutex mutex_;
  /// Those that were asked for.
  mutable std::map<PartLengths, std::shared_ptr<const Model>> models_ TRIREME_GUARDED_BY(mutex_);
};

/// Errors (user) before anything runs: the plan, valid for the experiment's model, does not fit a shape that batches
/// may have, see check_runs (program/shapes.h).
void check_shapes(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan);

}  // namespace trireme
