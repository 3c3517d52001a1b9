// Initial values of a model's weights, from a file.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "model/weights/match.h"
#include "trireme/config.h"

namespace trireme {

/// A file from which the model's initial values are read.
struct InitialWeights {
  std::filesystem::path path;  ///< a file of any kind that read_weights reads, or a run's folder
  std::string where;           ///< its position in the experiment file, for messages
  std::string note = {};       ///< one line for the user on where the weights come from; may be empty
  MatchOptions match;
};

/// The name of the trained weights in a run's folder.
inline constexpr const char* kWeightsFile = "weights.safetensors";

/// Reads the keys weights, weights_match, weights_skip and weights_prefix of an experiment's [model]; returns nullopt
/// without the key weights. Paths are relative to `folder`.
std::optional<InitialWeights> read_initial_weights(const ConfigTable& model, const std::filesystem::path& folder);

/// Returns the weights file for a path: the path itself, or the file in a run's folder. Errors (user): a folder without
/// one; for a comparison's folder, the message lists the folders of its rows.
std::filesystem::path weights_file(const std::filesystem::path& path);

}  // namespace trireme
