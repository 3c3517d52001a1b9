// Tensors by name, as weights' files hold them.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

using TensorMap = std::map<std::string, at::Tensor>;

/// What a file of weights holds.
struct Weights {
  TensorMap
      tensors;  ///< on the CPU; may share memory with each other (a PyTorch file's views): to be read, not written
  std::map<std::string, std::string> metadata = {};  ///< safetensors' __metadata__
  std::vector<std::string> not_tensors =
      {};  ///< names of a state dict's entries that are no tensors; they are left out
};

inline constexpr size_t kLongestShown = 80;  ///< bytes of a file's text within a message

/// For messages about what a file says: at most `limit` bytes, control characters and what is not UTF-8 as '?'.
std::string printable(std::string_view text, size_t limit = kLongestShown);

/// The quoted names, at most `limit` of them, then "and 12 more".
std::string list_names(const std::vector<std::string>& names, size_t limit);

}  // namespace trireme
