// A run's checkpoint settings that are not part of its experiment.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/file_system.h"
#include "checkpoint/checkpoint.h"
#include "experiment/experiment.h"
#include "trireme/dataset.h"

namespace trireme {

/// Where a run writes its checkpoints, and the checkpoint from which it resumes.
struct CheckpointUse {
  /// Folder of this run alone. It is created if missing; its parent must exist. Empty: no checkpoints.
  std::filesystem::path folder = {};
  std::optional<Checkpoint> resumed = {};  ///< checked against the experiment by open_resumption (checkpoint/resume.h)
  /// data_fingerprint of the training set, for the checkpoints that are written. Empty: they have none.
  std::string data = {};
  FileSystem* files = nullptr;  ///< null: the real file system
};

/// Errors (user): the experiment's [checkpoint] has a `best` that no evaluation gives, or a `best` without an
/// evaluation at every checkpoint.
void check_checkpoints(const Experiment& experiment, const TaskData& data);

}  // namespace trireme
