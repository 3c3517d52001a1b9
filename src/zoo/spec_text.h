// What a named model is made from, as text: files of weights carry it, so that the model can be made again.
#pragma once

#include <string>

#include "zoo/zoo.h"

namespace trireme {

/// JSON of one line: name, all options with their values, sample and target shapes, classes, vocabulary, task. Label
/// smoothing is the loss's affair and left out.
std::string to_text(const ModelSpec& spec);

/// Errors: a user error that begins with `where`, for a text that to_text did not write.
ModelSpec spec_from_text(const std::string& text, const std::string& where);

}  // namespace trireme
