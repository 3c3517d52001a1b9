// A layer in its place in training: what its inputs hold, and which gradients are asked of it.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/precision.h"
#include "trireme/model.h"

namespace trireme {

/// What a value of the model holds.
struct ValueKind {
  c10::ScalarType type = c10::ScalarType::Float;
  int64_t below = 0;  ///< > 0: integers from 0 to below - 1; 0: numbers
};

/// A layer in its place.
struct LayerSite {
  const Layer* layer = nullptr;
  std::vector<Shape> input_shapes;  ///< of a sample
  Shape output_shape;
  std::vector<ValueKind> inputs;
  ValueKind output;
  std::vector<bool> wants_inputs;      ///< gradients of inputs, in training
  std::vector<bool> wants_parameters;  ///< gradients of parameters
  bool differentiated = false;         ///< has a backward
  bool is_loss = false;                ///< the model's: it is handed the first gradient
};

struct SiteOptions {
  Precision precision = Precision::fp32;
  BatchNormScope batch_norm = BatchNormScope::local;
  std::vector<std::string> frozen = {};  ///< as CompileOptions::frozen
  bool tokens = false;                   ///< "data" is token ids (known without it where an embedding layer reads them)
};

}  // namespace trireme
