// A checkpoint: a folder that holds the whole state of a run between two steps, independent of the plan.
// docs/checkpoints.md describes its format.
// - `model-*.safetensors`: weights and running statistics, with the model's names and PyTorch's shapes.
// - `state-*.safetensors`: the tensors of the optimizer and of stateful layers.
// - `agreement-*.safetensors`: further state of replicas that agree.
// - `best-*.safetensors`: weights and running statistics of the best evaluation so far, in the model's shapes.
// - `checkpoint.json`: the run's position (with the seed, it determines everything random), the settings that determine
//   the run's curve, the size and CRC-32 of each other file, and a CRC-32 of itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_system.h"
#include "metrics/early_stopping.h"
#include "metrics/metrics.h"
#include "metrics/result.h"
#include "runtime/migrate/training_state.h"
#include "trireme/model.h"

namespace trireme {

inline constexpr const char* kCheckpointIndex = "checkpoint.json";
/// The file of each tensor of the model; read_weights reads all of them through it.
inline constexpr const char* kCheckpointWeights = "model.safetensors.index.json";
inline constexpr std::string_view kCheckpointPrefix = "step-";
inline constexpr std::string_view kUnfinished = ".tmp";  ///< suffix of a name while it is written or removed
/// Bytes of tensors in one file, at most. A larger tensor has a file to itself.
inline constexpr int64_t kShardBytes = int64_t{2} << 30;

struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  uint32_t crc32 = 0;  ///< CRC-32 as in zlib
};

/// The index of a checkpoint.
struct CheckpointIndex {
  int64_t step = 0;                      ///< steps done
  int64_t samples = 0;                   ///< samples trained on so far
  double epoch = 0;                      ///< passes over the training set so far
  double seconds = 0;                    ///< seconds of training so far
  double loss = 0;                       ///< loss of the last step's batch
  std::optional<double> test_loss = {};  ///< of an evaluation after that step, like the metrics
  std::vector<Metric> metrics = {};
  /// True if the run lost ranks before the evaluation after that step had ended. The resumed run begins with this
  /// evaluation.
  bool awaits_evaluation = false;
  StoppingState stopping = {};  ///< of a run that may end early; its measure is empty otherwise
  std::string ended = {};       ///< why the run ended after that step, before its length; empty: it did not
  /// The evaluation whose weights the checkpoint also holds, of a run that restores the best ones.
  std::optional<EvaluationPoint> best_evaluation = {};
  std::optional<TargetReached> reached = {};  ///< nullopt: the target was not reached, or there is none
  uint64_t seed = 0;
  int64_t updates = 0;  ///< updates of the optimizer so far
  std::string experiment = {};
  std::string model = {};  ///< Model::fingerprint
  std::string plan = {};   ///< short description of the plan under which it was written; for information
  /// "loss", or the metric by which the run keeps its best checkpoint. Empty: it keeps none.
  std::string best = {};
  std::map<std::string, std::string> settings = {};   ///< settings that determine the curve
  std::map<std::string, std::string> agreement = {};  ///< TrainingState::agreement_texts
  std::vector<CheckpointFile> files = {};

  int64_t bytes() const;  ///< bytes of all files except the index
};

struct Checkpoint {
  CheckpointIndex index;
  TrainingState state;
};

/// "step-00001200"
std::string checkpoint_name(int64_t step);
/// Returns the step in a checkpoint's name; nullopt for other names.
std::optional<int64_t> step_in(std::string_view name);

/// Writes `<folder>/<checkpoint_name>`, complete or not at all, even if the machine stops: the files are written under
/// another name and synced, then the folder is renamed. `folder` must exist. A checkpoint of that step is replaced.
/// State tensors must be dense and on the CPU. Returns the index with its files. Errors: those of the file system; they
/// leave an unfinished folder, which clean_up removes.
CheckpointIndex write_checkpoint(FileSystem& files, const std::filesystem::path& folder, CheckpointIndex index,
                                 const Model& model, const TrainingState& state, int64_t shard_bytes = kShardBytes);

/// Reads the index and checks the files' sizes. Errors (user): the folder is no checkpoint; its index is damaged; files
/// are missing or have another size.
CheckpointIndex read_checkpoint_index(const std::filesystem::path& checkpoint);

/// Reads every byte. Errors (user): the first damaged file, with its name.
void verify_checkpoint(const std::filesystem::path& checkpoint);

/// What a checkpoint's model and the experiment's must have in common.
enum class ModelMatch {
  all,      ///< layers, shapes and edges
  tensors,  ///< names and shapes of parameters and running statistics; samples may have another size
};

/// Reads and verifies a checkpoint. Errors (user): those of verify_checkpoint; a checkpoint of another model, with what
/// differs.
Checkpoint read_checkpoint(const std::filesystem::path& checkpoint, const Model& model,
                           ModelMatch match = ModelMatch::all);

/// Removes unfinished checkpoints, of a run that died or after an error.
void clean_up(FileSystem& files, const std::filesystem::path& folder);

/// Returns the name of the first tensor with a value that is not finite; "" if there is none.
std::string not_finite(const TrainingState& state);

}  // namespace trireme
