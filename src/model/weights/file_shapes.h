// Converts weights from the model's shapes to those of files, which are PyTorch's.
#pragma once

#include "trireme/model.h"

namespace trireme {

/// Returns views of the weights in their ParameterSpec::file_shape; buffers are unchanged. Throws an internal error if
/// one of the model's parameters or buffers is missing.
TensorMap in_file_shapes(const Model& model, const TensorMap& weights);

}  // namespace trireme
