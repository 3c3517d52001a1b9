// How many epochs training needs to its target with other global batches, measured on few workers: a larger batch is
// added up from micro-batches (gradient accumulation), so that memory stays what it was.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "cost/epochs_file.h"
#include "experiment/run_spec.h"
#include "train/observer.h"

namespace trireme {

/// How the learning rate follows the global batch: in proportion (Goyal et al. 2017), with its square root (Krizhevsky
/// 2014), not at all.
enum class RateRule { linear, square_root, fixed };
const char* name_of(RateRule rule);  ///< "linear", "sqrt", "fixed"

struct EpochsRequest {
  RateRule rate = RateRule::linear;
  int devices = 1;
  int64_t micro_batch =
      0;  ///< most samples that a worker computes at once; 0: as many as the experiment's batch has per worker
};

/// The experiment with another global batch and its learning rate. The experiment's own is for its own batch, or for
/// the optimizer's reference_batch, which the rule takes the place of.
RunSpec with_batch(const RunSpec& experiment, int64_t batch, RateRule rule);

/// Of a step with `batch` samples: the fewest that keep to the request. Errors (user): fewer samples than workers.
int micro_batches_for(const Experiment& experiment, int64_t batch, const EpochsRequest& request);

/// What decides a measurement besides its batch, for the file.
nlohmann::json epochs_settings(const RunSpec& experiment, const TaskData& data, const EpochsRequest& request);

/// Errors (user): no target, a batch larger than the training set or with fewer samples than workers. Before anything
/// is trained.
void check_epochs_request(const Experiment& experiment, const TaskData& data, const std::vector<int64_t>& batches,
                          const EpochsRequest& request);

/// Trains until an evaluation reaches the target, or to the experiment's length. None where the user or the time limit
/// ended it before. A run that diverges does not reach the target. Errors (user): no target, a batch larger than the
/// training set, what `train` refuses; errors of the run: what makes it fail otherwise (memory, data).
std::optional<EpochsMeasurement> measure_epochs(const RunSpec& experiment, const Model& model, const TaskData& data,
                                                int64_t batch, const EpochsRequest& request, TrainObserver& observer,
                                                const std::atomic<bool>& interrupted);

}  // namespace trireme
