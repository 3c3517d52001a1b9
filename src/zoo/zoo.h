// The named models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/zoo.h"

namespace trireme {

/// Returns a description of the model in one line.
std::string model_description(const std::string& name);
/// True if the model's "data" is token ids.
bool reads_tokens(const std::string& name);
/// True if the model supports the task, on data of token ids or of real numbers.
bool does(const std::string& name, LearningTask task, bool tokens);
/// Returns the names of all models for which `does` is true.
std::vector<std::string> models_for(LearningTask task, bool tokens);

}  // namespace trireme
