// `trireme plan --objective accuracy`: how long training to the target takes on more and more devices.
#pragma once

#include <cstdint>
#include <string>

#include "cli/options.h"
#include "cli/prediction.h"

namespace trireme {

struct PlanAccuracyOptions {
  ExperimentOptions experiment;  ///< `devices`: all of them
  CostSourceOptions prediction;
  std::string epochs;            ///< a file, a noise scale or a table, see parse_epochs
  int64_t per_worker = 0;        ///< samples of every data-parallel worker; 0: the experiment's batch
  int64_t epoch_samples = 0;     ///< 0: the training set's
  std::string json;              ///< "-": to the standard output instead of the plan; else also to this file; may be empty
};
/// Prints the plan that is quickest to the target as JSON and says, to the standard error, for a fixed batch per worker and for a fixed global
/// batch, the times of data parallelism and of the best hybrid that fit into memory, where the second overtakes the first, and prices where
/// there are any.
int run_plan_accuracy(const PlanAccuracyOptions& options);

/// "8", "2,4,8", or "1..256": 1, 2, 4, ..., 256. Throws CLI::ValidationError.
std::vector<int> parse_device_numbers(const std::string& text);

}  // namespace trireme
