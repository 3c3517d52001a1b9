// What a model's layers are like: for whoever asks what a layer costs, and why it is not split.
#pragma once

#include <string>
#include <vector>

#include "trireme/model.h"

namespace trireme {

struct LayerRow {
  std::string name, kind;
  Shape output = {};             ///< of a sample
  int64_t parameters = 0;        ///< numbers in it; those it shares with an earlier layer are counted there
  double forward_flops = 0;      ///< of a sample
  int64_t activation_bytes = 0;  ///< of a sample's output in float32
  bool opaque = false;           ///< operators of TorchScript that can only be replicated
  std::string splits = {};       ///< "split by channels, height", or "replicate only, because ..."
};

/// One row per layer, in the model's order, the loss at the end among them. `degree`: the tensor degree that a layer is
/// asked to split by, at least 2.
std::vector<LayerRow> describe_layers(const Model& model, int degree = 2);

}  // namespace trireme
