// Weights of a file as the values that training begins with.
#pragma once

#include <filesystem>
#include <optional>

#include "base/config.h"
#include "train/experiment.h"

namespace trireme {

/// What a run's folder calls its trained weights.
inline constexpr const char* kWeightsFile = "weights.safetensors";

/// The keys weights, weights_match, weights_skip and weights_prefix of an experiment's [model]; nothing without weights. Paths are
/// relative to `folder`.
std::optional<InitialWeights> read_initial_weights(const ConfigTable& model, const std::filesystem::path& folder);

/// The file of weights that a path stands for: itself, or the one in a run's folder. User error for a folder without one, which names
/// the rows' folders where it is a comparison's.
std::filesystem::path weights_file(const std::filesystem::path& path);

/// The model with the values of the experiment's file of weights where it names one, else as it is; what the file leaves open keeps
/// the model's own initial values. Errors (user): those of reading the file, and of one that does not fit (match_weights).
Model with_initial_weights(const Experiment& experiment, const Model& model);

}  // namespace trireme
