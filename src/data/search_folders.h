// Where data sets are looked for.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

namespace trireme {

/// Folders that are searched, in order: --data-dir, TRIREME_DATA, the cache folder. Each is tried with and without the
/// set's own folder name below it.
std::vector<std::filesystem::path> data_search_path(const std::optional<std::filesystem::path>& data_dir);

/// Where `trireme data get` puts sets unless told otherwise: TRIREME_CACHE, else XDG_CACHE_HOME/trireme, else
/// ~/.cache/trireme (else .cache/trireme where there is no HOME).
std::filesystem::path cache_folder();

}  // namespace trireme
