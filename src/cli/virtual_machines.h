// `trireme train --backend virtual`: workers in modelled time, on the machines of a cluster file or on machines like
// this one.
#pragma once

#include <string>
#include <vector>

#include "forecast/predictions.h"
#include "trireme/plan.h"

namespace trireme {

/// Throws a user error: modelled time exists in one process only.
[[noreturn]] void refuse_processes();

/// Errors (user): a cluster file is given, but the run is in real time, on this machine.
void refuse_described_machines(const CostSourceOptions& costs);

/// Errors (user): no links between the machines are given, or the experiment uses a feature that needs real time.
/// `plan`: in the form of --plan.
void check_virtual_time(const Experiment& experiment, const std::string& plan, const CostSourceOptions& costs);

/// Returns the plan of a name or a file on `devices` (empty: as choose_plan). What the name leaves open is chosen by
/// the speeds of the machines.
Plan choose_virtual_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                         const Model& model, Predictions& predictions);

/// Makes the experiment's workers run in modelled time, on the plan's devices, with their memory. Replicas that agree
/// get the modelled clock of [update.virtual]. The description comes from `predictions`.
void live_in_virtual_time(const Plan& plan, Predictions& predictions, const CostSourceOptions& costs,
                          RunSpec& experiment);

}  // namespace trireme
