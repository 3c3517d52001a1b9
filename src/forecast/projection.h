// Projects the time to the target for increasing numbers of devices: data parallelism alone, and data-parallel workers
// of several devices each (cost/end_to_end.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/end_to_end.h"
#include "cost/epochs_to_target.h"

namespace trireme {

struct ProjectionRequest {
  std::vector<int> devices;  ///< ascending
  std::vector<int> model_degrees{2, 4, 8};
  int64_t batch = 0;
  enum class BatchIs { per_worker, per_device, global };  ///< per_worker: per data-parallel worker
  BatchIs batch_is = BatchIs::per_worker;                 ///< what `batch` counts
  int64_t epoch_samples = 0;
};

/// One way to use a number of devices.
struct Projected {
  std::string strategy;  ///< "data=32,tensor=2"; "branches" or "placement" of each replica
  int devices = 1;
  int model_degree = 1;  ///< M, the devices per worker; the data axis has devices/M workers
  int64_t batch = 0;     ///< global
  double step_seconds = 0;
  double steps_per_epoch = 0;
  Epochs epochs = {};

  /// Returns the seconds to the target; nullopt if the epochs are unknown.
  std::optional<double> seconds() const;
};

/// True for "placement" and "branches", which place the layers of one replica.
bool is_of_replica(const std::string& strategy);
/// Returns "data=32,tensor=2" or "placement 2 x data 32".
std::string name_of_split(const std::string& strategy, int devices, int model_degree);
inline std::string name_of(const Projected& p) { return name_of_split(p.strategy, p.devices, p.model_degree); }

struct ProjectedRow {
  int devices = 1;
  /// Data parallelism alone. nullopt if the batch does not give each worker a sample, or the plan is refused or does
  /// not fit.
  std::optional<Projected> data;
  /// The best of all degrees and splits. It is chosen by its seconds per epoch if the epochs to the target are unknown.
  std::optional<Projected> hybrid;
};

/// The predicted step of a named plan.
struct PredictedStep {
  double seconds = 0;
  bool fits = true;  ///< true: fits into the devices' memory

  PredictedStep(double seconds, bool fits = true) : seconds(seconds), fits(fits) {}
};

/// Predicts the step of a strategy on `devices` devices; "placement" and "branches" use `model_degree` devices for each
/// replica. Returns nullopt if there is no such plan.
using StepPrediction = std::function<std::optional<PredictedStep>(const std::string& strategy, int devices,
                                                                  int64_t batch, int model_degree)>;

/// Returns one row per number of devices. Hybrids are data=N,tensor=M, data=N,pipeline=M under 1f1b, and N replicas
/// whose layers are placed on M devices each: "placement", and "branches" (parallel branches of a model's blocks on
/// separate devices).
std::vector<ProjectedRow> project(const ProjectionRequest& request, const EpochsToTarget& epochs,
                                  const StepPrediction& step_seconds);

/// Returns the first row in which the hybrid reaches the target sooner, also if data parallelism alone does not reach
/// it. Null: there is none.
const ProjectedRow* crossover_of(const std::vector<ProjectedRow>& rows);
/// Returns the numbers of devices after the crossover on which data parallelism is again faster than any hybrid.
std::vector<int> data_faster_again(const std::vector<ProjectedRow>& rows);
/// The fastest of all rows; null if no epochs are known.
const Projected* fastest_data(const std::vector<ProjectedRow>& rows);
const Projected* fastest_hybrid(const std::vector<ProjectedRow>& rows);

/// Returns `first`, 2 * `first`, 4 * `first`, ... below `last`, and then `last`: for "1..256", "1..48".
std::vector<int> doubling_devices(int first, int last);

}  // namespace trireme
