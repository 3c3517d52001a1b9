// One worker's part of an evaluation on the test set.
#pragma once

#include <cstdint>
#include <functional>

#include "runtime/worker.h"
#include "trireme/dataset.h"
#include "trireme/plan.h"

namespace trireme {

/// Evaluates `batches` batches, which `take` returns in order. All workers must call it together, with an empty
/// pipeline. Losses and metrics are sums.
StepOutcome evaluate_all(Worker& worker, const Plan& plan, const TaskData& data, int64_t batches,
                         const std::function<Batch(int64_t k)>& take);

}  // namespace trireme
