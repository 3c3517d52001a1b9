// A model's computation as TorchScript source.
#pragma once

#include <string>

#include "trireme/model.h"

namespace trireme {

/// Returns the source of the method `forward(self, data)` for a module with the model's parameters and buffers under
/// their dotted names, in the shapes of files (ParameterSpec::file_shape), in nested modules, and with a `training`
/// flag. `forward` returns the tensor that the model's loss reads. In training mode dropout and batch norm behave as
/// PyTorch's. A stateful layer starts every call from zeros. Throws fail_export's error.
std::string script_source(const Model& model);

}  // namespace trireme
