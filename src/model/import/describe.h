// A table of a model's layers: what each costs, and how it can be split.
#pragma once

#include <string>
#include <vector>

#include "trireme/model.h"

namespace trireme {

struct LayerRow {
  std::string name, kind;
  Shape output = {};             ///< sample shape
  int64_t parameters = 0;        ///< number of values; shared parameters are counted in the first layer that has them
  double forward_flops = 0;      ///< per sample
  int64_t activation_bytes = 0;  ///< of one sample's output in float32
  bool opaque = false;           ///< TorchScript operators that can only be replicated
  std::string splits = {};       ///< "split by channels, height", or "replicate only, because ..."
};

/// Returns one row per layer, in the model's order, including the loss. `degree`: the tensor degree for which the
/// layers' splits are requested, at least 2.
std::vector<LayerRow> describe_layers(const Model& model, int degree = 2);

}  // namespace trireme
