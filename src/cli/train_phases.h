// `trireme train` of an experiment with [[phase]] tables: a run for each phase, which begins with the state of the one
// before. The plan of each is chosen, and its layers measured, when it begins.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "experiment/experiment.h"

namespace trireme {

/// Trains all phases of `experiment`, which was read without choosing one, in folders phase-1, phase-2 and so on of the
/// run's folder, and returns the exit code. With options.resume, the folder of such a run, it goes on with the phase
/// that was not finished. `train_phase` trains one phase with its options and returns the exit code: run_train, or a
/// launch of options.processes processes by the command `launched_by`, up to "train". Errors (user): those of
/// run_train; a folder that is there, or is not of such a run. Errors (run): processes trained a phase, and its folder
/// is not on this machine.
int run_phases(const TrainOptions& options, const Experiment& experiment,
               const std::function<int(const TrainOptions&)>& train_phase, const std::string& launched_by = "");

/// For a training that is one run. Errors (user): --resume or --start-from names the folder of all phases; the message
/// names the phase's folder: to resume, that of the phase itself; to start, that of the phase before it, or of the
/// last.
void refuse_folder_of_phases(const TrainOptions& options);

/// The words of a command line from "train" on, for the processes that train this phase.
std::vector<std::string> words_of_phase(const TrainOptions& phase);

}  // namespace trireme
