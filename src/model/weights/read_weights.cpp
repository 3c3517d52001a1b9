#include "model/weights/read_weights.h"

#include <algorithm>
#include <array>

#include "base/file.h"
#include "model/weights/safetensors.h"
#include "model/weights/state_dict.h"
#include "trireme/error.h"

namespace trireme {

Weights read_weights(const std::filesystem::path& path) {
  if (path.filename().string().ends_with(".index.json")) return read_safetensors_index(path);
  std::array<char, kSafetensorsPrefix + 1> start{};
  const InputFile file(path);
  file.read(0, start.data(), std::min<uint64_t>(start.size(), file.size()));
  if (start.back() == '{') return read_safetensors(path);
  // a zip archive; or a pickle, for which read_state_dict has its own error
  const bool is_torch = (start[0] == 'P' && start[1] == 'K') || start[0] == '\x80';
  if (is_torch) return read_state_dict(path);
  fail_user({.where = path.string(),
             .what = "not a file of weights",
             .why = "neither safetensors nor a PyTorch .pt begins like this",
             .next = "check the path, or export the weights as safetensors"});
}

}  // namespace trireme
