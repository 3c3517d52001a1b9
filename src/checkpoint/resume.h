// Resumes from a checkpoint: chooses it, and checks that it belongs to this experiment.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "experiment/run_spec.h"
#include "trireme/dataset.h"
#include "trireme/plan.h"

namespace trireme {

/// Keys of settings that only a plan with an agreement uses: which samples each replica has.
inline constexpr const char *kSharesSetting = "update.shares", *kAlphaSetting = "update.alpha",
                            *kFeatureNoiseSetting = "update.feature_noise";
/// Key of a run on a stream whose epochs have all samples (SampleOrder::stream). Earlier versions left out the last
/// ones that fill no batch, and did not write the key.
inline constexpr const char* kStreamSetting = "data.stream";

/// Key of the setting with the fingerprint of the training set (checkpoint/data_fingerprint.h). Checkpoints of earlier
/// versions lack it.
inline constexpr const char* kDataSetting = "training data";

/// Returns the settings that determine a run's curve, by the experiment's keys, without kDataSetting. `steps`: of the
/// whole run.
std::map<std::string, std::string> curve_settings(const RunSpec& experiment, const Model& model, const TaskData& data,
                                                  int64_t steps);

struct Resumption {
  Checkpoint checkpoint;
  std::filesystem::path path;  ///< of the checkpoint
  /// Lines: newer checkpoints that are damaged; settings that differ and may differ.
  std::vector<std::string> notices = {};
};

/// Opens the checkpoint at `path`; for a run's folder or a folder of checkpoints, the newest one that verifies. Errors
/// (user): there is none, or none that verifies; a single one is damaged; another model, seed, batch, training set
/// (also one of equal size), optimizer, kind of state tensor or width of numbers; nothing is left to train. If
/// parameters are trained that were frozen, the optimizer's state begins anew, as a notice says; of replicas that
/// agree, this is an error. An error, too, is a checkpoint of an earlier version whose epochs on a stream were shorter,
/// after the first epoch. `steps`: of the whole run; 0: not known before it ends; nullopt: those of all workers
/// together.
Resumption open_resumption(const std::filesystem::path& path, const RunSpec& experiment, const Model& model,
                           const TaskData& data, std::optional<int64_t> steps = std::nullopt);

/// For a run that begins with the state of another: as the newest checkpoint of a run's folder, or the one at `path`,
/// with weights, running statistics and the optimizer's state, but with no step done and without the state of layers,
/// of replicas or of PowerSGD. The batch, the data, the sizes of samples and what is frozen may differ. Where the
/// optimizer or the trained parameters do, the optimizer's state begins anew, as a notice says. Errors (user): there is
/// no undamaged checkpoint; other parameters; another width of numbers; its weights are those of one of several
/// replicas.
Resumption open_start(const std::filesystem::path& path, const RunSpec& experiment, const Model& model);

/// Adds notices about what PowerSGD has left in the checkpoint and the plan's workers do not take over: errors of
/// gradients that they send whole, factors of shards that they cut otherwise or compress to another rank.
void note_factors_left(const Plan& plan, const RunSpec& experiment, const Model& model, Resumption& resumption);

/// For a run that continues in its own folder: returns its newest checkpoint that verifies and after which something is
/// left to train; nullopt if there is no checkpoint. Checkpoints after that one are removed, because the run writes
/// them again. Errors: as above; only checkpoints after the last step are left (user); those of removing.
std::optional<Resumption> open_own_resumption(const std::filesystem::path& run_folder, const RunSpec& experiment,
                                              const Model& model, const TaskData& data);

}  // namespace trireme
