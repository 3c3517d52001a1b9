// `trireme measure-epochs`: epochs to the target with several global batches.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/options.h"

namespace trireme {

struct MeasureEpochsOptions {
  ExperimentOptions experiment;
  std::vector<int64_t> batches;
  std::string rate = "linear";   ///< "linear", "sqrt", "fixed"
  int64_t micro_batch = 0;       ///< most samples that a worker computes at once; 0: the experiment's batch
  std::filesystem::path out;     ///< empty: the experiment's name in the working folder
};

/// Trains with each batch that the file does not have yet, adds it to the file, and prints them all.
int run_measure_epochs(const MeasureEpochsOptions& options);

}  // namespace trireme
