// The global batches of an experiment: which samples, in which shape, and how workers load them.
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
#include "runtime/step.h"
#include "trireme/plan.h"

namespace trireme {

/// Returns a batch of the planned samples; each caller of `load` loads its own. The batch keeps its data set and model
/// alive. `load` is thread-safe.
Batch batch_from(PlannedBatch plan);

/// Batches depend on the data, seed and epoch, never on a plan. Training: shuffled; a stream row by row
/// (SampleOrder::stream). Evaluation: in order, a stream row by row; each sample once.
///
/// With Experiment::pad_to_multiple_of, a batch holds sentences of similar length (SampleOrder::bucketed; evaluation:
/// in the order of their lengths). It is padded to its own longest sentence, rounded up, and has the experiment's model
/// for that shape. Losses and metrics equal those with more padding, up to rounding. Thread-safe.
class Batches {
 public:
  /// The arguments must outlive this object. Errors: those of BatchSampler.
  Batches(const Experiment& experiment, const TaskData& data);

  const BatchSampler& sampler() const { return sampler_; }
  /// Returns the batch of 0-based training step `step`.
  PlannedBatch training(int64_t step) const;
  /// Return the number of batches of one evaluation, and the number of samples in all of them.
  int64_t evaluations() const { return int64_t(test_.size()); }
  int64_t test_samples() const;
  PlannedBatch evaluation(int64_t k) const;
  /// True if the rows of that evaluation batch do not continue those of the one before.
  bool evaluation_starts_anew(int64_t k) const;

 private:
  PlannedBatch in_shape(const std::shared_ptr<const Dataset>& set, std::vector<int64_t> indices,
                        const Draw& draw) const;
  std::shared_ptr<const Model> model_for(const RepaddedSet& set, const PartLengths& parts) const;

  const Experiment& experiment_;
  const TaskData& data_;
  BatchSampler sampler_;
  std::vector<std::vector<int64_t>> test_;  ///< samples of each evaluation batch

  mutable Mutex mutex_;
  /// Models built so far, by shape.
  mutable std::map<PartLengths, std::shared_ptr<const Model>> models_ TRIREME_GUARDED_BY(mutex_);
};

/// Errors (user): a batch of more samples than a training epoch has. Clients with data of their own may have fewer.
void check_batch(const RunSpec& experiment, const TaskData& data);

/// Errors (user), before anything runs: the plan is valid for the experiment's model, but not for a shape that batches
/// may have. See check_runs (program/shapes.h).
void check_shapes(const RunSpec& experiment, const Model& model, const TaskData& data, const Plan& plan);

}  // namespace trireme
