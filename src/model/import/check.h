// A final check of an imported model: does it compute what its file computes?
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "trireme/model.h"

namespace trireme::torchscript {

/// Runs the model in evaluation mode, in the floating dtype of the data or of `state`, and compares its output with
/// `expected`, the file's output in the model's layout. Also runs the backward of every opaque layer. Throws a user
/// error if a layer has operators without a gradient, and an internal error if the outputs differ.
void check_model(const Model& model, const TensorMap& state, const at::Tensor& data, const at::Tensor& expected,
                 const std::string& file);

}  // namespace trireme::torchscript
