// `trireme train` of an experiment with [[phase]] tables: a run for each phase, which begins with the state of the one
// before. The plan of each is chosen, and its layers measured, when it begins.
#pragma once

#include "cli/commands.h"
#include "experiment/experiment.h"

namespace trireme {

/// Trains all phases of `experiment`, which was read without choosing one, in folders phase-1, phase-2 and so on of the
/// run's folder, and returns the exit code. With options.resume, the folder of such a run, it goes on with the phase
/// that was not finished. Errors (user): those of run_train; a folder that is there, or is not of such a run.
int run_phases(const TrainOptions& options, const Experiment& experiment);

}  // namespace trireme
