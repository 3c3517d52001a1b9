// A last look at an imported model: does it compute what its file computes?
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "trireme/model.h"
#include "trireme/tensor_map.h"

namespace trireme::torchscript {

/// Runs the model in evaluation, in the data's or `state`'s floating type, and compares with `expected`, the file's
/// output as the model's layers have it. Runs every opaque layer backwards too. User errors: a layer whose operators
/// have no gradient. Internal error where the outputs differ.
void check_model(const Model& model, const TensorMap& state, const at::Tensor& data, const at::Tensor& expected,
                 const std::string& file);

}  // namespace trireme::torchscript
