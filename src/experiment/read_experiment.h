// Reads an experiment file and what flags say about it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.h"

namespace trireme {

/// What flags say about an experiment; they win over the file.
struct ExperimentOverrides {
  std::vector<std::string> set = {};  ///< key=value
  std::optional<std::filesystem::path> data_dir = {};
  std::optional<uint64_t> seed = {};
  std::optional<int64_t> steps = {};
  std::vector<std::string> strategies = {};
  std::vector<int> devices = {};
};

/// Errors (user): file, line, key, value, reason, next step.
Experiment read_experiment(const std::filesystem::path& file, const ExperimentOverrides& overrides);

}  // namespace trireme
