// Weights between the model's shapes and those of files, which are PyTorch's.
#pragma once

#include "trireme/model.h"
#include "trireme/tensor_map.h"

namespace trireme {

/// Views of the weights in their ParameterSpec::file_shape, buffers as they are. Errors: internal, where one of the
/// model's parameters or buffers is missing.
TensorMap in_file_shapes(const Model& model, const TensorMap& weights);

}  // namespace trireme
