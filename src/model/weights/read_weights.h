// Weights of a file of any kind that Trireme reads.
#pragma once

#include <filesystem>

#include "trireme/tensor_map.h"

namespace trireme {

/// Reads safetensors, a safetensors index (a name that ends in ".index.json") or a PyTorch `.pt`; the content decides
/// between the other two, not the name. Errors: read_safetensors', read_safetensors_index's and read_state_dict's; a
/// user error for a file that begins like none of these.
Weights read_weights(const std::filesystem::path& path);

}  // namespace trireme
