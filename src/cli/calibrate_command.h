// `trireme calibrate`: fits the constants of a cluster file to measured steps.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

struct CalibrateOptions {
  std::filesystem::path cluster;
  std::filesystem::path rows;
  std::vector<std::string> fit;   ///< keys, or parts of keys between dots; empty: all that the rows determine
  std::vector<std::string> hold;  ///< names of rows that are only predicted
  std::filesystem::path out;      ///< the calibrated file; empty: its new lines are printed
  std::string json;
  std::optional<std::filesystem::path> data_dir;
  bool trust = false;
};

void add_calibrate(CLI::App& app, CalibrateOptions& options);

/// Prints the rows before and after, what was fitted and what was left, and why. Errors (user): a row that cannot be
/// predicted; rows that determine no constant.
int run_calibrate(const CalibrateOptions& options);

}  // namespace trireme
