// Folders in which data sets are searched.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace trireme {

/// Returns the folders to search, in order: --data-dir, TRIREME_DATA, the cache folder. Each is tried with and without
/// the set's own folder name appended.
std::vector<std::filesystem::path> data_search_path(const std::optional<std::filesystem::path>& data_dir);

/// Returns the default folder of `trireme data get`: TRIREME_CACHE, else XDG_CACHE_HOME/trireme, else ~/.cache/trireme
/// (else .cache/trireme if there is no HOME).
std::filesystem::path cache_folder();

}  // namespace trireme
