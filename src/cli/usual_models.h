// Models for command lines without an experiment.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"
#include "model/import/import.h"

namespace trireme {

/// Returns the zoo's model of that name with its usual options, for every kind of samples that it accepts among the
/// known data sets; at least one.
std::vector<Model> usual_models(const std::string& name);

/// Returns the model `name`, of the zoo or in a file, for the samples of the options; a model of the zoo has no initial
/// values. If the options give no samples, a note says which samples are assumed. Errors (user): an unknown model, a
/// file without --sample, or as import_model.
ImportedModel model_of_options(const PlanShowOptions& options, const std::string& name);

}  // namespace trireme
