// A folder of checkpoints of one run: lists them, finds the best one, and removes old ones.
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
  std::optional<CheckpointIndex> index = {};  ///< nullopt if it is damaged, as far as names and sizes show
  std::string damage = {};                    ///< one line; empty: no damage was seen
};

/// Returns the folder of checkpoints for a path: a run's folder, or a folder of checkpoints. Errors (user): any other
/// path.
std::filesystem::path checkpoint_folder_of(const std::filesystem::path& path);
/// True if the path is itself a checkpoint.
bool is_checkpoint(const std::filesystem::path& path);

/// Returns the error's text without its advice, which applies to a single checkpoint only.
std::string damage_in(const Error& error);

/// Returns the checkpoints in the order of their steps, without unfinished ones. Errors (user): the folder cannot be
/// read.
std::vector<FoundCheckpoint> find_checkpoints(const std::filesystem::path& folder);

/// Returns the value by which a run keeps its best checkpoint ("loss" or a metric); nullopt if the checkpoint has no
/// finite value.
std::optional<double> value_of(const CheckpointIndex& index, const std::string& best);
/// Returns the best checkpoint of those that have a value, the first of equal ones. Null if none has a value or `best`
/// is empty.
const FoundCheckpoint* best_of(const std::vector<FoundCheckpoint>& found, const std::string& best);

/// Removes undamaged checkpoints except the newest `keep` (0: removes none) and the best one. Checkpoints that cannot
/// be read stay. If interrupted, it leaves complete checkpoints and unfinished folders.
void remove_old_checkpoints(FileSystem& files, const std::filesystem::path& folder, const CheckpointSpec& spec);

/// Removes all checkpoints of later steps, damaged or not. If interrupted: as above.
void remove_after(FileSystem& files, const std::filesystem::path& folder, int64_t step);

}  // namespace trireme
