// Reads an experiment file and the flags that override it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace trireme {

/// Values of flags; they override the file.
struct ExperimentOverrides {
  std::vector<std::string> set = {};  ///< key=value
  std::optional<std::filesystem::path> data_dir = {};
  std::optional<uint64_t> seed = {};
  std::optional<int64_t> steps = {};
  std::vector<std::string> strategies = {};
  std::vector<int> devices = {};
  std::optional<std::string> device = {};  ///< "cuda", given to --device
  int phase = 0;                           ///< read the experiment of this phase, from 1; 0: without the changes of any
};

/// Errors (user): with file, line, key, value, reason and next step.
Experiment read_experiment(const std::filesystem::path& file, const ExperimentOverrides& overrides);

/// Reads `settings`: TOML with the keys of an experiment file except model and data. The caller provides those two.
/// Errors (user): as above, and the keys model and data.
Experiment read_settings(const std::string& settings, const std::string& model_name);

}  // namespace trireme
