// What a run is told about checkpoints besides its experiment.
#pragma once

#include <filesystem>
#include <optional>

#include "base/file_system.h"
#include "checkpoint/checkpoint.h"
#include "experiment/experiment.h"
#include "trireme/dataset.h"
#include "trireme/plan.h"

namespace trireme {

/// Where a run's checkpoints go, and the one that it goes on from.
struct CheckpointUse {
  std::filesystem::path folder =
      {};  ///< of this run alone; made where it is missing, its parent must exist. Empty: none
  std::optional<Checkpoint> resumed = {};  ///< held to the experiment by open_resumption (checkpoint/resume.h)
  FileSystem* files = nullptr;             ///< null: the machine's
};

/// Errors (user): the experiment's [checkpoint] with this plan: PowerSGD; a `best` that no evaluation gives, or without
/// an evaluation at every checkpoint.
void check_checkpoints(const Experiment& experiment, const TaskData& data, const Plan& plan);

}  // namespace trireme
