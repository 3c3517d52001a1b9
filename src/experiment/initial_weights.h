// Weights of a file as the values that training begins with.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/weights/match.h"
#include "trireme/config.h"

namespace trireme {

/// A file that the model's initial values are taken from.
struct InitialWeights {
  std::filesystem::path path;  ///< of any kind that read_weights reads, or a folder of a run
  std::string where;           ///< where the experiment names it, for messages
  MatchOptions match;
};

/// What a run's folder calls its trained weights.
inline constexpr const char* kWeightsFile = "weights.safetensors";

/// The keys weights, weights_match, weights_skip and weights_prefix of an experiment's [model]; nothing without
/// weights. Paths are relative to `folder`.
std::optional<InitialWeights> read_initial_weights(const ConfigTable& model, const std::filesystem::path& folder);

/// The file of weights that a path stands for: itself, or the one in a run's folder. User error for a folder without
/// one, which names the rows' folders where it is a comparison's.
std::filesystem::path weights_file(const std::filesystem::path& path);

}  // namespace trireme
