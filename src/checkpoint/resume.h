// Goes on from a checkpoint: which one, and whether it is of this experiment.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "experiment/run_spec.h"
#include "trireme/dataset.h"

namespace trireme {

/// What decides a run's curve, by the experiment's keys. `steps`: of the whole run.
std::map<std::string, std::string> curve_settings(const RunSpec& experiment, const Model& model, const TaskData& data,
                                                  int64_t steps);

struct Resumption {
  Checkpoint checkpoint;
  std::filesystem::path path;             ///< of the checkpoint
  std::vector<std::string> notices = {};  ///< lines: newer ones that are damaged; settings that differ and may
};

/// The checkpoint at `path`; of a run's folder, or of a folder of checkpoints, the newest that verifies. Errors (user):
/// none there, or none that verifies; a single one that is damaged; another model, seed, batch, training set, optimizer
/// or width of numbers; nothing left to train. `steps`: of the whole run, 0: not known before it ends; not set: those
/// of all workers together.
Resumption open_resumption(const std::filesystem::path& path, const RunSpec& experiment, const Model& model,
                           const TaskData& data, std::optional<int64_t> steps = std::nullopt);

/// For a run that goes on in its own folder: its newest checkpoint that verifies and after which something is left to
/// train; nothing where it has written none. Checkpoints after that one are removed, for the run will write them again.
/// Errors: as above, and those of removing.
std::optional<Resumption> open_own_resumption(const std::filesystem::path& run_folder, const RunSpec& experiment,
                                              const Model& model, const TaskData& data);

}  // namespace trireme
