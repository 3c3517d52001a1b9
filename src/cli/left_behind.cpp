#include "cli/left_behind.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/train_checkpoints.h"
#include "trireme/error.h"

namespace trireme {

std::optional<FoundCheckpoint> newest_complete(const std::filesystem::path& run_folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(run_folder / kCheckpointFolder, ignored)) return std::nullopt;
  std::vector<FoundCheckpoint> found;
  try {
    found = find_checkpoints(checkpoint_folder_of(run_folder));
  } catch (const Error&) {
    return std::nullopt;  // the end of the run has been reported; an unreadable folder adds nothing to that
  }
  const auto newest =
      std::find_if(found.rbegin(), found.rend(), [](const FoundCheckpoint& c) { return c.index && c.damage.empty(); });
  if (newest == found.rend()) return std::nullopt;
  return *newest;
}

std::string left_behind(const std::filesystem::path& run_folder, const std::string& command) {
  const std::optional<FoundCheckpoint> newest = newest_complete(run_folder);
  if (!newest) return "";
  return fmt::format("newest complete checkpoint: after step {}, {}\nto resume: {}\n", newest->step,
                     newest->path.string(), command.empty() ? start_again_with(run_folder) : command);
}

}  // namespace trireme
