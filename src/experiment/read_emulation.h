// Reads an experiment's [cluster]: links between the workers, and changes during a run.
#pragma once

#include "experiment/experiment.h"
#include "trireme/config.h"

namespace trireme {

/// Reads links, and changes of links, workers and memory. Must be called after the keys of devices and replicas are
/// read. Errors (user): changes that are not in the order of their steps; workers that no run can have; speeds and
/// limits that cannot work.
void read_emulation(const ConfigTable& file, Experiment& experiment);

/// Errors (user): a change of a worker that a run of up to `workers` workers does not have.
void check_emulation(const Experiment& experiment, int workers);

}  // namespace trireme
