// The specification of a named model, as text. Weight files contain it, so that the model can be built again.
#pragma once

#include <string>

#include "zoo/zoo.h"

namespace trireme {

/// Returns one line of JSON: name, all options with their values, sample and target shapes, classes, vocabulary, task.
/// Label smoothing belongs to the loss and is left out.
std::string to_text(const ModelSpec& spec);

/// Throws a user error that begins with `where` if the text is not one that to_text writes.
ModelSpec spec_from_text(const std::string& text, const std::string& where);

}  // namespace trireme
