// Finds the published graph files with golden values; they are not part of the repository.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace trireme {

/// Path of the file below TRIREME_PROFILES or, if not set, below the folder `profiles` beside TRIREME_DATA; empty if
/// there is no such file.
inline std::filesystem::path profile_file(const std::string& name) {
  namespace fs = std::filesystem;
  fs::path folder;
  if (const char* own = std::getenv("TRIREME_PROFILES")) folder = own;
  else if (const char* data = std::getenv("TRIREME_DATA"))
    folder = fs::path(data).lexically_normal().parent_path() / "profiles";
  const fs::path file = folder / name;
  return !folder.empty() && fs::exists(file) ? file : fs::path();
}

#define TRIREME_PROFILE_OR_SKIP(variable, name)              \
  const std::filesystem::path variable = profile_file(name); \
  if (variable.empty())                                      \
  GTEST_SKIP() << (name) << " is not here: set TRIREME_PROFILES to the folder that holds the published graphs"

}  // namespace trireme
