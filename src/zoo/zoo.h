// The named models.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/zoo.h"

namespace trireme {

/// What it is, in one line.
std::string model_description(const std::string& name);
/// Whether the model's "data" is token ids.
bool reads_tokens(const std::string& name);
/// Whether the model is for the task, on data of token ids or of numbers.
bool does(const std::string& name, LearningTask task, bool tokens);
/// The names of all models of which `does` is true.
std::vector<std::string> models_for(LearningTask task, bool tokens);

}  // namespace trireme
