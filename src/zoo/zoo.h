// The named models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "zoo/model_spec.h"

namespace trireme {

/// Builds a model. Each model's file states what it is and which options it has. Throws a user error that lists the
/// known names or options; the layers' own errors about shapes.
Model make_model(const ModelSpec& spec);

std::vector<std::string> model_names();
/// Returns a description of the model in one line.
std::string model_description(const std::string& name);
/// True if the model's "data" is token ids.
bool reads_tokens(const std::string& name);
/// True if the model supports the task, on data of token ids or of real numbers.
bool does(const std::string& name, LearningTask task, bool tokens);
/// Returns the names of all models for which `does` is true.
std::vector<std::string> models_for(LearningTask task, bool tokens);
/// Returns the options of a named model with their defaults.
std::map<std::string, double> model_options(const std::string& name);

}  // namespace trireme
