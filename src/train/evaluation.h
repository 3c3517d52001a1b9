// Evaluations on the test set: one worker's part, and what all parts give together.
#pragma once

#include <cstdint>
#include <functional>

#include "experiment/batches.h"
#include "metrics/result.h"
#include "runtime/worker.h"
#include "train/step_records.h"
#include "trireme/plan.h"

namespace trireme {

/// Evaluates all test batches of `batches`, which `take` loads in order. All workers must call it together, with an
/// empty pipeline. Losses and metrics are sums.
StepOutcome evaluate_all(Worker& worker, const Plan& plan, const Batches& batches,
                         const std::function<Batch(int64_t k)>& take);

/// Returns the evaluation that all workers have posted, with its step, loss and metrics.
EvaluationPoint evaluation_of(const StepRecord& entry, LearningTask task, int64_t classes, int64_t test_samples);

}  // namespace trireme
