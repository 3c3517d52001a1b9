// [[phase]] tables of an experiment: training in phases that differ in batch, sizes of samples or frozen parameters.
#pragma once

#include <vector>

#include "experiment/experiment.h"
#include "trireme/config.h"

namespace trireme {

inline constexpr const char* kFirstPhase = "phase-1";  ///< folder of the first phase's run, in that of all phases

/// Reads the [[phase]] tables; empty if the file has none. Errors (user): a phase without a length; a key that cannot
/// change between phases.
std::vector<PhaseSpec> read_phases(const ConfigTable& file);

/// Errors (user): the assignment, of --set, is to the key "phase".
void refuse_phase_as_key(const std::string& assignment);

/// Overrides the file's keys with the changes of the phase (from 1). Errors (user): there is no such phase.
void change_to_phase(int phase, const std::vector<PhaseSpec>& phases, ConfigTable& file);

/// Completes the experiment of a phase: it has a seed of its own, so that its samples come in another order, and writes
/// a checkpoint when it ends or is interrupted, with which the next phase begins.
void complete_phase(Experiment& experiment);

}  // namespace trireme
