// TorchScript archives: models that Python's torch.jit.load and C++'s torch::jit::load can run without Trireme.
#pragma once

#include <filesystem>

#include "model/input_form.h"
#include "trireme/model.h"

namespace trireme {

/// Writes the model with `weights` (in the model's shapes; every parameter and buffer, also those that the output does
/// not depend on). The module's forward(data) returns the tensor that the model's loss reads, for data [n, ...sample
/// shape] in the weights' dtype or of token ids. Its state_dict() has the model's names and the shapes of files. The
/// module is in evaluation mode; train() enables dropout and batch statistics in batch norm. The file is written
/// completely or not at all (AtomicFile). Throws the errors of script_source and AtomicFile.
///
/// `inputs` (may be null): how raw values become the model's data. The file has it as the extra file kInputsKey. With
/// `raw`, forward(data) takes raw values instead (model/input_form.h; bytes or numbers 0 to 255 of images), of any
/// dtype, and calls the module above, which is the attribute `model`: names of the state_dict begin with "model.".
void write_torchscript(const std::filesystem::path& path, const Model& model, const TensorMap& weights,
                       const InputForm* inputs = nullptr, bool raw = false);

/// Writes the module that `model` was imported from (model/import/import.h): the code of the file `source`, unchanged,
/// with `weights` in place of the file's. Tensors that the model left out keep the file's values. Numbers are float32
/// (float64 where the file's are). Throws the errors of reading `source`; a user error if that file now holds another
/// module; AtomicFile's errors.
void write_torchscript(const std::filesystem::path& path, const std::filesystem::path& source, const Model& model,
                       const TensorMap& weights, const InputForm* inputs = nullptr, bool raw = false);

}  // namespace trireme
