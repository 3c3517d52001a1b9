#include "data/search_folders.h"

#include <cstdlib>

#include "trireme/error.h"

namespace trireme {
namespace {

std::optional<std::filesystem::path> environment_path(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::filesystem::path(value);
}

}  // namespace

std::filesystem::path cache_folder() {
  if (auto own = environment_path("TRIREME_CACHE")) return *own;
  if (auto shared = environment_path("XDG_CACHE_HOME")) return *shared / "trireme";
  return environment_path("HOME").value_or(".") / ".cache" / "trireme";
}

std::vector<std::filesystem::path> data_search_path(const std::optional<std::filesystem::path>& data_dir) {
  std::vector<std::filesystem::path> folders;
  if (data_dir) folders.push_back(*data_dir);
  if (auto named = environment_path("TRIREME_DATA")) folders.push_back(*named);
  folders.push_back(cache_folder());
  return folders;
}

}  // namespace trireme
