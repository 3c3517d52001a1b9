// What a run leaves that cannot speak for itself any more: its rank 0 is dead, frozen or cut off.
#pragma once

#include <filesystem>
#include <string>

namespace trireme {

/// Its newest whole checkpoint, as far as names and sizes tell, and how to go on from it. `command`: that does; empty: it is not known how
/// the ranks were started. Lines; "" where the folder has no such checkpoint.
std::string left_behind(const std::filesystem::path& run_folder, const std::string& command);

}  // namespace trireme
