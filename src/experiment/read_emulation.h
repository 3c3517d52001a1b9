// Reads an experiment's [cluster]: links between the workers, and what changes while a run goes on.
#pragma once

#include "experiment/experiment.h"
#include "trireme/config.h"

namespace trireme {

/// Reads links and changes of links, workers and memory. After the keys of devices and replicas. Errors (user): changes
/// that are not in the order of their steps, workers that none can be, speeds and limits that nothing can be done with.
void read_emulation(const ConfigTable& file, Experiment& experiment);

/// Errors (user): a change of a worker that none of up to `workers` is.
void check_emulation(const Experiment& experiment, int workers);

}  // namespace trireme
