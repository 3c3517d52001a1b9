// Files of epochs to the target (docs/end-to-end.md), and what --epochs may say instead of one.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cost/epochs_to_target.h"

namespace trireme {

/// One training with one batch, as the file has it.
struct EpochsMeasurement {
  EpochsPoint point;
  double trained = 0;        ///< epochs: to the target where it was reached, else all that were trained
  int64_t steps = 0;         ///< likewise
  double seconds = 0;        ///< likewise
  double learning_rate = 0;  ///< its largest
  int micro_batches = 1;
  std::optional<double> noise_scale = {};  ///< samples, where it was estimated
  std::string remark = {};                 ///< why the target was not reached: "diverged: ..."
};

struct EpochsFile {
  std::string source = "measured";  ///< or "assumed"
  nlohmann::json settings;          ///< what was trained, and how: measurements of other settings do not go with these
  std::vector<EpochsMeasurement> measurements;

  EpochsToTarget epochs() const;
};

/// Errors (user): with the file and what is wrong in it.
EpochsFile read_epochs_file(const std::filesystem::path& path);
void write_epochs_file(const EpochsFile& file, const std::filesystem::path& path);

/// "epochs.json", "noise=2000", "noise=2000,least=12" or a table of assumed numbers: "256:4,2048:4.5,8192:16"; in a
/// table "-" stands for a batch with which the target is not reached. Errors (user).
EpochsToTarget parse_epochs(const std::string& text);

}  // namespace trireme
