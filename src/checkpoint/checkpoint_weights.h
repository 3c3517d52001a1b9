// Weights of a run that has none at its end: those of its newest checkpoint.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "experiment/experiment.h"

namespace trireme {

struct CheckpointWeights {
  std::filesystem::path file;  ///< as read_weights reads it
  std::string note;            ///< of which step they are, and why: one line
  std::string model;           ///< the run's; empty: not known
};

/// Returns the weights of the newest complete checkpoint at `path`: the folder of a run, or of checkpoints, or a
/// checkpoint. nullopt: it has a file of weights, or no checkpoint. `next`: what to do where the checkpoint is of
/// replicas. Errors (user): such a checkpoint, because it has the weights of the first replica only; a damaged one.
std::optional<CheckpointWeights> checkpoint_weights(const std::filesystem::path& path, const std::string& next);

/// Lets the initial weights of an experiment be those of checkpoint_weights, where they name such a folder. Errors
/// (user): as there.
void take_checkpoint_weights(Experiment& experiment);

}  // namespace trireme
