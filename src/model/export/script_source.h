// A model's computation as TorchScript source.
#pragma once

#include <string>

#include "trireme/model.h"

namespace trireme {

/// The method `forward(self, data)` of a module that has the model's parameters and buffers under their dotted names,
/// in the shapes of files (ParameterSpec::file_shape), in modules of their own, and a `training` flag; it gives what
/// the model's loss judges. While training dropout and batch norm do as PyTorch's; a stateful layer starts every call
/// from zeros. Errors: fail_export.
std::string script_source(const Model& model);

}  // namespace trireme
