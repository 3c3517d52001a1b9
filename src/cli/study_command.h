// `trireme study`: trains the runs of a study and writes one report.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace trireme {

struct StudyOptions {
  std::string study;  ///< a file, or the name of a study that comes with the program; empty: list those
  bool quick = false, full = false;
  bool dry_run = false;       ///< print what would be trained, and how long that takes
  std::filesystem::path out;  ///< empty: studies/<name>, with -quick or -full behind it
  std::optional<std::filesystem::path> data_dir;
};

/// Trains what an earlier call with the same folder has not trained, writes the report, and prints its advice. Returns
/// 1 if a run could not be trained or a row failed. Errors (user): no such study; errors of its file.
int run_study(const StudyOptions& options);

}  // namespace trireme
