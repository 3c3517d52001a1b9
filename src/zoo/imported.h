// A user's own model with the loss of a task: a file in place of a name of the zoo.
#pragma once

#include <filesystem>
#include <string>

#include "model/import/import.h"
#include "zoo/zoo.h"

namespace trireme {

/// True if a model's name is that of a file: it ends as TorchScript files do.
bool names_script_file(const std::string& name);

/// Imports a TorchScript file (model/import/import.h) for the samples of `spec`, and adds its task's loss. spec.name
/// and spec.options are ignored. spec.classes = 0 means that there is no data set: the task, its classes and the
/// target's shape are then derived from the output's shape. A language model may know more tokens than the data have,
/// as one whose vocabulary is padded: a note says so. Throws the user errors of import_torchscript, and a user error
/// for an output that the task's loss cannot read.
ImportedModel import_model(const std::filesystem::path& file, ModelSpec spec);

}  // namespace trireme
