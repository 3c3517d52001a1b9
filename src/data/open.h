// Finds and opens a data set by name.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "data/data_spec.h"
#include "data/dataset.h"

namespace trireme {

/// Folders that are searched, in order: --data-dir, TRIREME_DATA, the cache folder. Each is tried with and without the set's own
/// folder name below it.
std::vector<std::filesystem::path> data_search_path(const std::optional<std::filesystem::path>& data_dir);

/// Where `trireme data get` puts sets unless told otherwise: TRIREME_CACHE, else XDG_CACHE_HOME/trireme, else
/// ~/.cache/trireme (else .cache/trireme where there is no HOME).
std::filesystem::path cache_folder();

/// Opens the set. One that is nowhere found is replaced by its stand-in, where it has one, and TaskData::source says so; else it is a
/// user error that lists the folders searched and the command that downloads it. A set of which only some files are found is a user
/// error too, as is a --data-dir that does not exist.
TaskData open_data(const DataSpec& spec);

}  // namespace trireme
