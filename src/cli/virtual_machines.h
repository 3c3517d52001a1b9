// `trireme train --backend virtual`: workers in virtual time, on machines of a cluster file or on such as this one.
#pragma once

#include <string>
#include <vector>

#include "forecast/predictions.h"
#include "trireme/plan.h"

namespace trireme {

/// Throws a user error: virtual time is one process'.
[[noreturn]] void refuse_processes();

/// Errors (user): nothing says what connects the machines, or the experiment wants what needs real time. `plan`: as for
/// --plan.
void check_virtual_time(const Experiment& experiment, const std::string& plan, const CostSourceOptions& costs);

/// The plan of a name or a file on `devices` (empty: as choose_plan); of a name that leaves anything open, by what the
/// machines can do.
Plan choose_virtual_plan(const std::string& name, const std::vector<int>& devices, const RunSpec& experiment,
                         const Model& model, Predictions& predictions);

/// The experiment's workers live in virtual time from here on, on the plan's devices, with their memory; replicas that
/// agree have the modelled clock of [update.virtual]. Says so in `predictions`' words.
void live_in_virtual_time(const Plan& plan, Predictions& predictions, const CostSourceOptions& costs,
                          RunSpec& experiment);

}  // namespace trireme
