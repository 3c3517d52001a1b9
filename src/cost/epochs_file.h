// Files of epochs to the target (docs/end-to-end.md), and the values that --epochs accepts instead of a file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cost/epochs_to_target.h"

namespace trireme {

/// One training run with one batch size, as stored in the file.
struct EpochsMeasurement {
  EpochsPoint point;
  double trained = 0;        ///< epochs to the target if it was reached, else all epochs that were trained
  int64_t steps = 0;         ///< steps in those epochs
  double seconds = 0;        ///< seconds in those epochs
  double learning_rate = 0;  ///< the largest of the run
  int micro_batches = 1;
  std::optional<double> noise_scale = {};  ///< in samples, if it was estimated
  std::string remark = {};                 ///< why the target was not reached: "diverged: ..."
};

struct EpochsFile {
  std::string source = "measured";  ///< "measured" or "assumed"
  nlohmann::json settings;          ///< what was trained, and how; measurements with other settings must not be added
  std::vector<EpochsMeasurement> measurements;

  EpochsToTarget epochs() const;
};

/// Throws a user error that names the file and what is wrong in it.
EpochsFile read_epochs_file(const std::filesystem::path& path);
void write_epochs_file(const EpochsFile& file, const std::filesystem::path& path);

/// Accepts "epochs.json", "noise=2000", "noise=2000,least=12" or a table of assumed numbers: "256:4,2048:4.5,8192:16".
/// In a table, "-" means that the target is not reached with that batch. Throws a user error.
EpochsToTarget parse_epochs(const std::string& text);

}  // namespace trireme
