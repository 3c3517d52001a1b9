// Models that a command line names where no experiment says what they are for.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.h"
#include "model/import/import.h"

namespace trireme {

/// The zoo's model of that name with its usual options, for every kind of samples, as in the data sets that Trireme
/// knows, that it takes; at least one.
std::vector<Model> usual_models(const std::string& name);

/// The model `name`, of the zoo or in a file, for the samples that the options say; a zoo's is without initial values.
/// A note says for which samples a zoo's model is where the options say none.
/// Errors (user): no such model, a file without --sample, as import_model.
ImportedModel model_of_options(const PlanShowOptions& options, const std::string& name);

}  // namespace trireme
