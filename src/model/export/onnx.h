// ONNX files: https://github.com/onnx/onnx, operator set 17.
#pragma once

#include <filesystem>

#include "trireme/model.h"

namespace trireme {

/// Writes the model as it evaluates, with `weights` (in the model's shapes): an input "data" [n, ...sample shape] with
/// any n, floats or int64 token ids, an output "output", what the model's loss judges. Parameters are initializers
/// under their names, in the shapes of files, but for those of plain LSTMs, whose gates ONNX has in another order.
/// Always float32. Written in one go or not at all (AtomicFile). Errors: fail_export's; a user error for models of 2
/// GiB or more, which is the format's limit; AtomicFile's; where Trireme was built without libonnx one that says so.
void write_onnx(const std::filesystem::path& path, const Model& model, const TensorMap& weights);

}  // namespace trireme
