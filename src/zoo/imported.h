// A model of one's own with the loss of a task: what a file stands for where the zoo has names.
#pragma once

#include <filesystem>
#include <string>

#include "model/import/import.h"
#include "zoo/zoo.h"

namespace trireme {

/// Whether a model's name is that of a file: it ends as TorchScript files do.
bool names_script_file(const std::string& name);

/// Imports a TorchScript file (model/import/import.h) for the samples of `spec`, and ends it in its task's loss;
/// spec.name and spec.options say nothing here. spec.classes = 0: no data are there; the task, its classes and the
/// target's shape are then those that the output looks like. Errors (user): as import_torchscript; an output that is
/// not what the task's loss judges.
ImportedModel import_model(const std::filesystem::path& file, ModelSpec spec);

}  // namespace trireme
