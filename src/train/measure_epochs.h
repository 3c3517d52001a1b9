// Measures how many epochs training needs to reach its target with other global batches, on few workers. A larger batch
// is accumulated from micro-batches (gradient accumulation), so that memory does not grow.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "cost/epochs_file.h"
#include "experiment/run_spec.h"
#include "train/observer.h"

namespace trireme {

/// How the learning rate depends on the global batch: proportional (Goyal et al. 2017), proportional to its square root
/// (Krizhevsky 2014), or constant.
enum class RateRule { linear, square_root, fixed };
const char* name_of(RateRule rule);  ///< "linear", "sqrt", "fixed"

struct EpochsRequest {
  RateRule rate = RateRule::linear;
  int devices = 1;
  /// Most samples that a worker computes at once; 0: as many as the experiment's batch has per worker.
  int64_t micro_batch = 0;
};

/// Returns the experiment with another global batch and the learning rate for it. The experiment's own learning rate
/// belongs to its own batch, or to the optimizer's reference_batch, which the rule replaces.
RunSpec with_batch(const RunSpec& experiment, int64_t batch, RateRule rule);

/// Returns the least number of micro-batches for a step with `batch` samples that satisfies the request. Errors (user):
/// fewer samples than workers.
int micro_batches_for(const Experiment& experiment, int64_t batch, const EpochsRequest& request);

/// Returns the settings on which a measurement depends besides its batch, for the file.
nlohmann::json epochs_settings(const RunSpec& experiment, const TaskData& data, const EpochsRequest& request);

/// Errors (user): no target; a batch larger than the training set or with fewer samples than workers. Call it before
/// training.
void check_epochs_request(const Experiment& experiment, const TaskData& data, const std::vector<int64_t>& batches,
                          const EpochsRequest& request);

/// Trains until an evaluation reaches the target, or for the experiment's length. Returns nullopt if the user or the
/// time limit ended it earlier. A run that diverges does not reach the target. Errors (user): no target; a batch larger
/// than the training set; what `train` refuses. Other errors: why the run failed (memory, data).
std::optional<EpochsMeasurement> measure_epochs(const RunSpec& experiment, const Model& model, const TaskData& data,
                                                int64_t batch, const EpochsRequest& request, TrainObserver& observer,
                                                const std::atomic<bool>& interrupted);

}  // namespace trireme
