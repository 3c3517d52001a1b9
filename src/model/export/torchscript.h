// TorchScript archives: models that Python's torch.jit.load and C++'s torch::jit::load run without Trireme.
#pragma once

#include <filesystem>

#include "trireme/model.h"

namespace trireme {

/// Writes the model with `weights` (in the model's shapes; every parameter and buffer, also those that the output does
/// not depend on) as a module whose forward(data) gives what the model's loss judges, from data [n, ...sample shape] of
/// the weights' dtype or of token ids. Its state_dict() has the model's names and the shapes of files; it is in
/// evaluation mode, train() lets dropout draw and batch norm take the batch's statistics. Written in one go or not at
/// all (AtomicFile). Errors: script_source's, AtomicFile's.
void write_torchscript(const std::filesystem::path& path, const Model& model, const TensorMap& weights);

/// Writes the module that `model` was imported from (model/import/import.h), all its code as it is in the file
/// `source`, with `weights` in place of its own; what the model left out keeps the file's values. Numbers are float32
/// (float64 where the file's are). Errors: those of reading `source`; user, where it is another module by now;
/// AtomicFile's.
void write_torchscript(const std::filesystem::path& path, const std::filesystem::path& source, const Model& model,
                       const TensorMap& weights);

}  // namespace trireme
