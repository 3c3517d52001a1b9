// `trireme plan show MODEL`: lists the layers of a model, their costs and the ways to split them.
#pragma once

#include <string>

#include "cli/commands.h"

namespace trireme {

/// True if a word in the place of a plan names a model: a TorchScript file or a model of the zoo.
bool names_model(const std::string& word);

/// Prints the layers of the model that options.plan names, for the experiment's data if there is an experiment.
int show_layers(const PlanShowOptions& options);

}  // namespace trireme
