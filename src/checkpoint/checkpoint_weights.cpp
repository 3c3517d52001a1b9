#include "checkpoint/checkpoint_weights.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "checkpoint/checkpoint_folder.h"
#include "experiment/initial_weights.h"
#include "trireme/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Returns the newest complete checkpoint at `path`, or `path` itself if it is one; nullopt: there is none.
std::optional<fs::path> newest_checkpoint(const fs::path& path) {
  if (is_checkpoint(path)) return path;
  std::vector<FoundCheckpoint> found;
  try {
    found = find_checkpoints(checkpoint_folder_of(path));
  } catch (const Error&) {
    return std::nullopt;  // it has no checkpoints; what it lacks is said by weights_file
  }
  std::erase_if(found, [](const FoundCheckpoint& c) { return !c.index || !c.damage.empty(); });
  return found.empty() ? std::nullopt : std::optional(found.back().path);
}

}  // namespace

std::optional<CheckpointWeights> checkpoint_weights(const fs::path& path, const std::string& next) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored) || fs::exists(path / kWeightsFile, ignored)) return std::nullopt;
  const std::optional<fs::path> checkpoint = newest_checkpoint(path);
  if (!checkpoint) return std::nullopt;
  const CheckpointIndex index = read_checkpoint_index(*checkpoint);
  if (index.agreement.contains("0"))
    fail_user({checkpoint->string(), "is of replicas under an update policy",
               "its weights are those of the first replica, not the run's result", next});
  const auto ema = index.settings.find("optimizer.ema");
  const bool averaged = ema != index.settings.end() && ema->second != "0";
  std::string note = fmt::format("weights after step {}{}, from {}: the folder has no {}", index.step,
                                 averaged ? " (before averaging)" : "", checkpoint->string(), kWeightsFile);
  const auto model = index.settings.find("model");
  return CheckpointWeights{.file = *checkpoint / kCheckpointWeights,
                           .note = std::move(note),
                           .model = model == index.settings.end() ? "" : model->second};
}

void take_checkpoint_weights(Experiment& experiment) {
  if (!experiment.initial_weights) return;
  InitialWeights& wanted = *experiment.initial_weights;
  const auto found = checkpoint_weights(wanted.path, "resume the run to its end, and name its folder");
  if (!found) return;
  wanted.path = found->file;
  wanted.note = found->note;
}

}  // namespace trireme
