// Reads weights from a file of any supported format.
#pragma once

#include <filesystem>

#include "model/weights/weights.h"

namespace trireme {

/// Reads safetensors, a safetensors index (a name that ends in ".index.json") or a PyTorch `.pt`. Safetensors and `.pt`
/// are distinguished by content, not by name. Throws the errors of read_safetensors, read_safetensors_index and
/// read_state_dict; a user error for a file that begins like none of these.
Weights read_weights(const std::filesystem::path& path);

}  // namespace trireme
