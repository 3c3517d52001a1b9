// `trireme plan show MODEL`: the layers of a model, what each costs and by what it can be split.
#pragma once

#include <string>

#include "cli/commands.h"

namespace trireme {

/// Whether the word that stands for a plan is a model: a TorchScript file or one of the zoo.
bool names_model(const std::string& word);

/// Prints the layers of the model that options.plan names, for the experiment's data where there is one.
int show_layers(const PlanShowOptions& options);

}  // namespace trireme
