// A layer in the context of training: the kinds of its inputs, and which gradients it must compute.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/precision.h"
#include "trireme/model.h"

namespace trireme {

/// The type and range of a value of the model.
struct ValueKind {
  c10::ScalarType type = c10::ScalarType::Float;
  int64_t below = 0;  ///< > 0: integers from 0 to below - 1; 0: floating-point numbers
};

/// A layer in the context of training.
struct LayerSite {
  const Layer* layer = nullptr;
  std::vector<Shape> input_shapes;  ///< of a sample
  Shape output_shape;
  std::vector<ValueKind> inputs;
  ValueKind output;
  std::vector<bool> wants_inputs;      ///< gradients of inputs that training needs
  std::vector<bool> wants_parameters;  ///< gradients of parameters that training needs
  bool differentiated = false;         ///< has a backward
  bool is_loss = false;                ///< the model's loss: its output gradient is the first one
};

struct SiteOptions {
  Precision precision = Precision::fp32;
  BatchNormScope batch_norm = BatchNormScope::local;
  std::vector<std::string> frozen = {};  ///< see CompileOptions::frozen
  bool tokens = false;  ///< "data" is token ids (detected without this option if an embedding layer reads it)
};

}  // namespace trireme
