#include "cli/left_behind.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cli/train_checkpoints.h"
#include "train/checkpoint_folder.h"

namespace trireme {

std::string left_behind(const std::filesystem::path& run_folder, const std::string& command) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(run_folder / kCheckpointFolder, ignored)) return "";
  std::vector<FoundCheckpoint> found;
  try {
    found = find_checkpoints(checkpoint_folder_of(run_folder));
  } catch (const Error&) {
    return "";  // how the run ended has been said; that its folder cannot be read either is no news
  }
  const auto newest = std::find_if(found.rbegin(), found.rend(), [](const FoundCheckpoint& c) { return c.index && c.damage.empty(); });
  if (newest == found.rend()) return "";
  return fmt::format("newest whole checkpoint: after step {}, {}\nto go on: {}\n", newest->step, newest->path.string(),
                     command.empty() ? start_again_with(run_folder) : command);
}

}  // namespace trireme
