// Time to the target on more and more devices: data parallelism alone, and workers of several devices each
// (cost/end_to_end.h).
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
  bool per_worker = true;  ///< `batch` samples of every data-parallel worker; else of the global batch
  int64_t epoch_samples = 0;
};

/// One way to use some devices.
struct Projected {
  std::string strategy;  ///< "data=32,tensor=2", or what stands for it: "branches x data 32"
  int devices = 1;
  int model_degree = 1;  ///< M; the data axis has devices/M workers
  int64_t batch = 0;     ///< global
  double step_seconds = 0;
  double steps_per_epoch = 0;
  Epochs epochs = {};
  bool by_product =
      false;  ///< the step's seconds are those of one worker times what data parallelism adds (Pal et al.)

  /// None where the epochs are not known.
  std::optional<double> seconds() const;
};

struct ProjectedRow {
  int devices = 1;
  std::optional<Projected>
      data;  ///< none where the batch does not give every worker a sample, or the plan is refused or does not fit
  std::optional<Projected> hybrid;  ///< the best of all degrees and splits; by its step where epochs are not known
};

/// A step of a named plan.
struct PredictedStep {
  double seconds = 0;
  bool fits = true;  ///< into the devices' memory

  PredictedStep(double seconds, bool fits = true) : seconds(seconds), fits(fits) {}
};

/// None where there is no such plan.
using StepPrediction =
    std::function<std::optional<PredictedStep>(const std::string& strategy, int devices, int64_t batch)>;

/// A row per number of devices. Hybrids are data=N,tensor=M and data=N,pipeline=M under 1f1b. What is named for one
/// worker only
/// ("branches": parallel branches of a model's blocks on devices of their own) takes SU^M of its own on M devices, and
/// T_N/T_1 of data parallelism.
std::vector<ProjectedRow> project(const ProjectionRequest& request, const EpochsToTarget& epochs,
                                  const StepPrediction& step_seconds);

/// The first row in which the hybrid is quicker to the target, also where data parallelism alone does not get there;
/// none: nowhere.
const ProjectedRow* crossover_of(const std::vector<ProjectedRow>& rows);
/// Numbers of devices after the crossover on which data parallelism is quicker than any hybrid after all.
std::vector<int> data_quicker_again(const std::vector<ProjectedRow>& rows);
/// The quickest of all rows; null where no epochs are known.
const Projected* quickest_data(const std::vector<ProjectedRow>& rows);
const Projected* quickest_hybrid(const std::vector<ProjectedRow>& rows);

/// 1, 2, 4, ... up to the last, with it: "1..256", "1..48".
std::vector<int> doubling_devices(int first, int last);

}  // namespace trireme
