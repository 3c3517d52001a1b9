// A folder of checkpoints of one run: which there are, which is the best, and which may go.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "experiment/checkpoint_spec.h"

namespace trireme {

inline constexpr const char* kCheckpointFolder = "checkpoints";  ///< in a run's folder

/// One of the folder's checkpoints.
struct FoundCheckpoint {
  std::filesystem::path path;
  int64_t step = 0;
  std::optional<CheckpointIndex> index = {};  ///< nothing where it is damaged, as far as names and sizes tell
  std::string damage = {};                    ///< one line; empty: none was seen
};

/// The folder with checkpoints that a path stands for: a run's folder, a folder of checkpoints. User error for any
/// other.
std::filesystem::path checkpoint_folder_of(const std::filesystem::path& path);
/// Whether the path is a checkpoint itself.
bool is_checkpoint(const std::filesystem::path& path);

/// What an error found damaged, without its advice, which is for one checkpoint alone.
std::string damage_in(const Error& error);

/// In the order of their steps. Unfinished ones are none. Errors (user): the folder cannot be read.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& folder);

/// The value that a run keeps its best checkpoint by ("loss" or a metric), as far as the checkpoint has it.
std::optional<double> value_of(const CheckpointIndex& index, const std::string& best);
/// Of those that have a value the best one, the first of equal ones; null: none has any. `best` empty: null.
const FoundCheckpoint* best_of(const std::vector<FoundCheckpoint>& found, const std::string& best);

/// Removes whole checkpoints but the newest `keep` (0: all stay) and the best one; what cannot be read stays.
/// Interrupted at any point it leaves whole checkpoints and unfinished folders.
void remove_old_checkpoints(FileSystem& files, const std::filesystem::path& folder, const CheckpointSpec& spec);

/// Removes all, whole or not, of later steps. Interrupted at any point: as above.
void remove_after(FileSystem& files, const std::filesystem::path& folder, int64_t step);

}  // namespace trireme
