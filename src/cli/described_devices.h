// How many devices a command needs, before data, model or costs are read: checks that the described machines have them,
// and finds the batch of so many.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "experiment/run_spec.h"
#include "forecast/predictions.h"

namespace trireme {

/// Errors (user): one of `plans` (strategies, update policies, plan files) needs more devices than described: by the
/// cluster file of `costs`, by [update.virtual] (for policies), or by device_threads and device_speeds (this machine).
/// `usual`: the devices of a plan that does not say how many. `where`: names the plans, "--plan". Also user errors:
/// those of check_plan_name and of the cluster file, and a plan file that is not JSON. Other errors of a plan file are
/// reported when it is read.
void check_described_devices(const std::vector<std::string>& plans, const std::string& where, int usual,
                             const ExperimentOptions& options, const Experiment& experiment,
                             const CostSourceOptions& costs);

/// Returns the experiment of the row of `plan` (a strategy, an update policy, a plan file): where its batch is per
/// device, with the row's global batch (with_batch_on). `usual`: the devices of a plan that does not say how many.
/// Errors (user): those of with_batch_on; a plan file that is not JSON.
RunSpec of_row(const RunSpec& experiment, const std::string& plan, int usual);

}  // namespace trireme
