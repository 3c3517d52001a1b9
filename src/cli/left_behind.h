// Reports the newest checkpoint of a run whose rank 0 cannot report it, because it is dead, frozen or cut off.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/checkpoint_folder.h"

namespace trireme {

/// Returns a run's newest complete checkpoint, judged by names and sizes. nullopt: it has none, or they cannot be read.
std::optional<FoundCheckpoint> newest_complete(const std::filesystem::path& run_folder);

/// Returns lines about that checkpoint and how to resume it. `command`: the command that resumes it; empty: it is
/// unknown how the ranks were started. Returns "" if the folder has no such checkpoint.
std::string left_behind(const std::filesystem::path& run_folder, const std::string& command);

}  // namespace trireme
