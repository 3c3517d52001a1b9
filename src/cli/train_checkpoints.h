// The checkpoints of `trireme train`: their folder, the runs that cannot have any, and how to resume.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/resume.h"
#include "cli/commands.h"
#include "report/earlier_run.h"

namespace trireme {

/// After an interrupt, to finish the step and write a checkpoint.
inline constexpr unsigned kSecondsForLastCheckpoint = 60;

/// Call it before anything runs. Errors (user): those of check_checkpoints, or of check_agreement_checkpoints.
void check_train_checkpoints(const TrainOptions& options, const RunSpec& experiment, const TaskData& data,
                             const Plan& plan);

/// Errors (user): --start-from together with --resume.
void check_start(const TrainOptions& options);

/// Opens what options.start_from names, for this plan. Errors (user): those of open_start; an update policy's plan.
Resumption open_start(const TrainOptions& options, const Plan& plan, const RunSpec& experiment, const Model& model);

/// True if the state after the row's last step should have been written and was not.
bool lacks_last_checkpoint(const RunResult& row);

/// For a run that resumes a checkpoint at `path` (as open_resumption) with a batch per device: lets it keep the
/// checkpoint's global batch, whatever its number of devices. Returns false, and changes nothing, where no checkpoint
/// can be read there, or if `plan` is under an update policy: its replicas divide the batch, so another one is an error
/// when the checkpoint is opened.
bool keep_batch(const std::filesystem::path& path, const std::string& plan, RunSpec& experiment);

/// Returns the folder for the run's checkpoints: in the run's folder, or in the experiment's checkpoint folder with a
/// link in the run's. Creates its parent folders. Empty: the experiment wants no checkpoints. `goes_on`: the run may
/// already have the folder.
std::filesystem::path place_for_checkpoints(const Experiment& experiment, const std::filesystem::path& run_folder,
                                            bool goes_on = false);

/// Returns CheckpointUse::data; "" if samples cannot be read, which the training reports, and of a server whose clients
/// have the data.
std::string fingerprint_for_checkpoints(const RunSpec& experiment, const TaskData& data);

/// Returns the lines that are printed when a run resumes a checkpoint.
std::vector<std::string> lines_of(const Resumption& resumption);

/// Environment variable of ranks: the user's command that started them all, up to "train".
inline constexpr const char* kLaunchedByVariable = "TRIREME_LAUNCHED_BY";

/// Returns the point from which the run continues.
GoesOnFrom point_of(const Resumption& resumption);

/// Returns the command that resumes a run. `launched_by`: the value of that variable; empty: a run without processes.
std::string resume_command(const std::string& launched_by, const TrainOptions& options,
                           const std::filesystem::path& from);

/// Returns the advice if Trireme does not know how the ranks were started.
std::string start_again_with(const std::filesystem::path& from);

/// Returns lines about what the run wrote and, if it did not finish, the command that resumes it; "" if there is
/// nothing to report.
std::string closing_lines(const TrainOptions& options, const RunResult& row, const std::filesystem::path& run_folder);

/// Returns the line below a run's results that says how to compare its plan with others. Empty for a run that did not
/// end normally, and for workers that are processes: `compare` runs threads.
std::string comparison_line(const TrainOptions& options, const RunResult& row);

}  // namespace trireme
