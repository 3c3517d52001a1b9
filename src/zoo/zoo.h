// The named models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "zoo/model_spec.h"

namespace trireme {

/// Builds it; each model's file says what it is and which options it has.
/// Errors: user error that lists the known names or options; layers' own errors about shapes.
Model make_model(const ModelSpec& spec);

std::vector<std::string> model_names();
/// What it is, in one line.
std::string model_description(const std::string& name);
/// Whether the model's "data" is token ids.
bool reads_tokens(const std::string& name);
/// Whether the model is for the task, on data of token ids or of numbers.
bool does(const std::string& name, LearningTask task, bool tokens);
/// The names of all models of which `does` is true.
std::vector<std::string> models_for(LearningTask task, bool tokens);
/// Options of a named model with their defaults.
std::map<std::string, double> model_options(const std::string& name);

}  // namespace trireme
