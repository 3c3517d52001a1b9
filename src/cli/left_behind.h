// What a run leaves that cannot speak for itself any more: its rank 0 is dead, frozen or cut off.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_folder.h"

namespace trireme {

/// A run's newest whole checkpoint, as far as names and sizes tell. nullopt: it has none, or they cannot be read.
std::optional<FoundCheckpoint> newest_whole(const std::filesystem::path& run_folder);

/// That checkpoint, and how to go on from it. `command`: that does; empty: it is not known how
/// the ranks were started. Lines; "" where the folder has no such checkpoint.
std::string left_behind(const std::filesystem::path& run_folder, const std::string& command);

}  // namespace trireme
