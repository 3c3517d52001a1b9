// ONNX files: https://github.com/onnx/onnx, operator set 17.
#pragma once

#include <filesystem>

#include "model/input_form.h"
#include "trireme/model.h"

namespace trireme {

/// Writes the model in evaluation mode, with `weights` in the model's shapes. The graph has one input "data" [n,
/// ...sample shape] with any n (floats or int64 token ids) and one output "output": the tensor that the model's loss
/// reads. Parameters are initializers under their names, in the shapes of files. Exception: parameters of plain LSTMs,
/// because ONNX orders the gates differently. Always float32. The file is written completely or not at all
/// (AtomicFile). Throws the errors of fail_export and AtomicFile; a user error for models of 2 GiB or more, the
/// format's limit; and a user error if Trireme was built without libonnx.
///
/// `inputs` (may be null): how raw values become the model's data. The file has it as metadata kInputsKey. With `raw`,
/// the input is called "raw" and has raw values instead (model/input_form.h): uint8 of images, float64 of tables.
void write_onnx(const std::filesystem::path& path, const Model& model, const TensorMap& weights,
                const InputForm* inputs = nullptr, bool raw = false);

}  // namespace trireme
