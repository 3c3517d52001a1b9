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
  std::optional<std::string> device;
  std::vector<std::string> strategies;
  std::vector<int> devices;
  std::optional<std::filesystem::path> out;
  int phase = 0;  ///< from 1; 0: not given
  bool trust = false;

  /// EXPERIMENT, --set, --data-dir, --seed, --phase, --trust.
  void add_common(CLI::App& app);
  /// --devices with one number, or with several.
  void add_devices(CLI::App& app, bool several, int most = kMaxDevices);
  /// --device.
  void add_device(CLI::App& app);
  /// --steps, --device, --out.
  void add_run(CLI::App& app);

  ExperimentOverrides overrides() const;
  /// Errors (user): as read_experiment; a model in a file without --trust; an experiment with phases without --phase.
  /// A batch per device is an error, too: a command that knows the devices of its rows calls read_for_devices().
  Experiment read() const;
  /// As read(). The batch may be per device: awaits_devices() (experiment/experiment.h).
  Experiment read_for_devices() const;
  /// As read_for_devices(). May return an experiment with phases of which none is chosen.
  Experiment read_with_phases() const;
  /// Call it before a TorchScript file is opened, because opening it runs its code. User error without --trust.
  void check_trust(const std::filesystem::path& script) const;
  /// Returns a command line that begins with `words`, such as {"train"}, and has the same experiment and flags, except
  /// devices and strategies.
  std::vector<std::string> words_after(std::vector<std::string> words) const;
};

/// Returns a check for flags: a whole number from `least` to `most`, with an error that says so.
CLI::Validator whole_number(int64_t least, int64_t most = std::numeric_limits<int64_t>::max());

/// Parses "60 s", "5 min" or "60" to seconds. Errors (user): invalid text, or not more than 0; `flag` is named in the
/// error.
double parse_time_limit(const std::string& text, const std::string& flag);

/// Throws a user error if the file given to a flag could not be written, so that the error appears now and not after an
/// hour of training. Does nothing for an empty name.
void check_target(const std::string& flag, const std::filesystem::path& file);

/// Sets how many seconds after an interrupt the program is ended by force if it has not ended; 4 unless set.
void allow_seconds_after_interrupt(unsigned seconds);

/// Returns true once the user has pressed Ctrl-C (or sent SIGTERM, or closed the terminal: SIGHUP, unless it was
/// ignored at the start). The first call installs the signal handlers.
const std::atomic<bool>& interrupted_by_user();

/// Makes `signal` act like Ctrl-C from now on. asked_by_signal() returns true if that signal was the one that arrived.
void end_by_signal(int signal);
bool asked_by_signal();

}  // namespace trireme
