// The flags that say where predicted seconds come from.
#pragma once

#include <CLI/CLI.hpp>

#include "forecast/predictions.h"

namespace trireme {

/// Adds --cluster, which is for `purpose`, and --profile.
void add_cost_source(
    CLI::App& verb, CostSourceOptions& options,
    const std::string& purpose = "predict for the machines of this file (*.cluster.toml) instead of this machine");
void add_profile_flag(CLI::App& verb, CostSourceOptions& options);
void add_times_flag(CLI::App& verb, CostSourceOptions& options);

}  // namespace trireme
