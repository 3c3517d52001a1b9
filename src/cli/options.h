// Flags that the verbs share.
#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/memory.h"
#include "experiment/experiment.h"
#include "experiment/read_experiment.h"

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
  bool trust = false;

  /// EXPERIMENT, --set, --data-dir, --seed, --trust.
  void add_common(CLI::App& app);
  /// --devices with one number, or several.
  void add_devices(CLI::App& app, bool several, int most = kMaxDevices);
  /// --steps, --out.
  void add_run(CLI::App& app);

  ExperimentOverrides overrides() const;
  /// Errors (user): as read_experiment; a model of a file without --trust.
  Experiment read() const;
  /// Before a TorchScript file is opened: its code runs then. User error without --trust.
  void check_trust(const std::filesystem::path& script) const;
  /// The same flags for a child process, but for devices and strategies.
  std::vector<std::string> forwarded() const;
};

/// A check for flags: a whole number from `least` to `most`, and an error that says so.
CLI::Validator whole_number(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

/// "60 s", "5 min", or "60": seconds. Errors (user): none, or not more than 0; `flag` is where.
double parse_time_limit(const std::string& text, const std::string& flag);

/// Throws a user error where the file given to a flag could not be written: now, and not after an hour of training. An
/// empty name is none.
void check_target(const std::string& flag, const std::filesystem::path& file);

/// After an interrupt the program is ended by force when so many seconds have passed, if it has not come to its end by
/// itself; 4 unless set.
void allow_seconds_after_interrupt(unsigned seconds);

/// True once the user has pressed Ctrl-C (or sent SIGTERM). Installs the handlers on first call.
const std::atomic<bool>& interrupted_by_user();

/// From here on `signal` is as Ctrl-C, and asked_by_signal() says that it was the one that came.
void end_by_signal(int signal);
bool asked_by_signal();

}  // namespace trireme
