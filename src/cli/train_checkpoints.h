// What `trireme train` does about checkpoints besides training: where they go, what cannot have any, how to go on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/resume.h"
#include "cli/commands.h"

namespace trireme {

inline constexpr unsigned kSecondsForLastCheckpoint =
    60;  ///< after an interrupt, to end the step and write what has been trained

/// Before anything runs. Errors (user): those of check_checkpoints, or of check_agreement_checkpoints.
void check_train_checkpoints(const TrainOptions& options, const RunSpec& experiment, const TaskData& data,
                             const Plan& plan);

/// The folder for the run's checkpoints: in its own, or where the experiment says, with a link in the run's. Made as
/// far as its parent. Empty: the experiment wants none. `goes_on`: the run may have one already.
std::filesystem::path place_for_checkpoints(const Experiment& experiment, const std::filesystem::path& run_folder,
                                            bool goes_on = false);

/// What is said of a run that goes on from a checkpoint.
std::vector<std::string> lines_of(const Resumption& resumption);

/// Environment variable of ranks: the command that started them all, up to "train".
inline constexpr const char* kLaunchedByVariable = "TRIREME_LAUNCHED_BY";

/// The command that goes on with a run. `launched_by`: as that variable; empty: a run without processes.
std::string resume_command(const std::string& launched_by, const TrainOptions& options,
                           const std::filesystem::path& from);

/// What to do instead where Trireme does not know how the ranks were started.
std::string start_again_with(const std::filesystem::path& from);

/// What the run wrote and, where it did not get to its end, the command that goes on with it. Lines; "" where there is
/// nothing to say.
std::string closing_lines(const TrainOptions& options, const RunResult& row, const std::filesystem::path& run_folder);

}  // namespace trireme
