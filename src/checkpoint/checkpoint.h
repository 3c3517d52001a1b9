// A checkpoint: a folder that holds all of a run between two steps, independent of the plan. Its weights and running
// statistics lie in `model-*.safetensors` under the model's names in PyTorch's shapes, what the optimizer and stateful
// layers keep in `state-*.safetensors`, what replicas that agree have besides in `agreement-*.safetensors`;
// `checkpoint.json` has the run's place (from which, with the seed, everything random follows), the settings that make
// its curve, and size and CRC-32 of each file, itself included. docs/checkpoints.md has the form.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "metrics/metrics.h"
#include "runtime/migrate/training_state.h"
#include "trireme/model.h"

namespace trireme {

inline constexpr const char* kCheckpointIndex = "checkpoint.json";
inline constexpr std::string_view kCheckpointPrefix = "step-";
inline constexpr std::string_view kUnfinished = ".tmp";   ///< what a name ends with while it is written or removed
inline constexpr int64_t kShardBytes = int64_t{2} << 30;  ///< of tensors in one file; a larger tensor has one to itself

struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32 = 0;  ///< as zlib's
};

/// What a checkpoint says of itself.
struct CheckpointIndex {
  int64_t step = 0;                      ///< steps done
  int64_t samples = 0;                   ///< trained on so far
  double epoch = 0;                      ///< passes over the training set so far
  double seconds = 0;                    ///< of training so far
  double loss = 0;                       ///< of the last step's batch
  std::optional<double> test_loss = {};  ///< of an evaluation after that step, as the metrics
  std::vector<Metric> metrics = {};
  bool awaits_evaluation = false;  ///< the run lost ranks before that one's end: it goes on with it
  uint64_t seed = 0;
  int64_t updates = 0;  ///< of the optimizer
  std::string experiment = {};
  std::string model = {};  ///< Model::fingerprint
  std::string plan = {};   ///< it was written under, in short; for information
  std::string best = {};   ///< "loss" or a metric: by which the run keeps its best; empty: it does not
  std::map<std::string, std::string> settings = {};   ///< those that decide the curve
  std::map<std::string, std::string> agreement = {};  ///< TrainingState::agreement_texts
  std::vector<CheckpointFile> files = {};

  int64_t bytes() const;  ///< of all files but the index
};

struct Checkpoint {
  CheckpointIndex index;
  TrainingState state;
};

/// "step-00001200"
std::string checkpoint_name(int64_t step);
/// The step in a checkpoint's name; nothing for other names.
std::optional<int64_t> step_in(std::string_view name);

/// Writes `<folder>/<checkpoint_name>`, complete or not at all, whenever the machine stops: under another name first,
/// each file synced, then renamed. `folder` must exist and have no checkpoint of that step. State tensors must be dense
/// and on the CPU. Returns the index with its files. Errors: those of the file system, of which an unfinished folder is
/// left that clean_up removes.
CheckpointIndex write_checkpoint(FileSystem& files, const std::filesystem::path& folder, CheckpointIndex index,
                                 const Model& model, const TrainingState& state, int64_t shard_bytes = kShardBytes);

/// Errors (user): the folder is no checkpoint or its index is damaged; files that are missing or of another size.
CheckpointIndex read_checkpoint_index(const std::filesystem::path& checkpoint);

/// Reads every byte. Errors (user): the first damaged file, by name.
void verify_checkpoint(const std::filesystem::path& checkpoint);

/// Verified. Errors (user): those of verifying; a checkpoint of another model, with what differs.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoint, const Model& model);

/// Removes what was not finished: of a run that died, or after an error.
void clean_up(FileSystem& files, const std::filesystem::path& folder);

/// The first tensor with a value that is not finite; "": there is none.
std::string not_finite(const TrainingState& state);

}  // namespace trireme
