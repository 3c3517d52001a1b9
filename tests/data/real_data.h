// Finds real data sets for tests. The including target defines TRIREME_TEST_REAL_DATA, the folder to search if
// TRIREME_DATA is not set.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::test_support {

/// Returns the folder of the data set; nullopt if there is none.
inline std::optional<std::filesystem::path> real_set(const std::string& folder) {
  const char* named = std::getenv("TRIREME_DATA");
  std::filesystem::path path = std::filesystem::path(named && *named ? named : TRIREME_TEST_REAL_DATA) / folder;
  if (std::filesystem::is_directory(path)) return path;
  return std::nullopt;
}

}  // namespace trireme::test_support
