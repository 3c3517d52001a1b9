// Flags that the verbs share.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/experiment.h"

namespace trireme {

struct ExperimentOptions {
  std::filesystem::path experiment;
  std::vector<std::string> set;
  std::optional<std::filesystem::path> data_dir;
  std::optional<uint64_t> seed;
  std::optional<int64_t> steps;
  std::vector<std::string> strategies;
  std::vector<int> devices;
  std::optional<std::filesystem::path> out;

  /// EXPERIMENT, --set, --data-dir, --seed.
  void add_common(CLI::App& app);
  /// --steps, --devices.
  void add_run(CLI::App& app);

  ExperimentOverrides overrides() const;
  Experiment read() const { return read_experiment(experiment, overrides()); }
  /// The same flags for a child process, but for devices and strategies.
  std::vector<std::string> forwarded() const;
};

/// True once the user has pressed Ctrl-C (or sent SIGTERM). Installs the handlers on first call.
const std::atomic<bool>& interrupted_by_user();

}  // namespace trireme
