// The content of a weight file, and how messages about such files show its texts.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/model.h"

namespace trireme {

/// The content of a weight file.
struct Weights {
  /// On the CPU; may share memory with each other (views in a PyTorch file). Must not be written to.
  TensorMap tensors;
  std::map<std::string, std::string> metadata = {};  ///< safetensors' __metadata__
  /// Names of entries of a state dict that are not tensors. These are left out of `tensors`.
  std::vector<std::string> not_tensors = {};
};

inline constexpr size_t kLongestShown = 80;  ///< bytes of a file's text in a message

/// Returns a file's text in printable form, for messages: at most `limit` bytes, with '?' for control characters and
/// for bytes that are not UTF-8.
std::string printable(std::string_view text, size_t limit = kLongestShown);

/// Returns the quoted names, at most `limit` of them, then "and 12 more".
std::string list_names(const std::vector<std::string>& names, size_t limit);

}  // namespace trireme
