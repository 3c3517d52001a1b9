// The table behind declared_memory: by kind of layer, what its forward and backward keep and allocate. Each function mirrors the
// layer of that kind in model/layers/ and is named after it.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>

#include "cost/call_shapes.h"
#include "profile/layer_memory.h"

namespace trireme::declared {

using Declaration = LayerMemory (*)(const CallShapes&);
using DeclarationTable = std::map<std::string_view, Declaration>;

/// Layers on images and elementwise ones; layers on sequences; losses.
const DeclarationTable& image_layers();
const DeclarationTable& sequence_layers();
const DeclarationTable& losses();

/// An output of its own, the gradients that are wanted in storages of their own, nothing kept.
LayerMemory plain(const CallShapes& call);
/// The output is the input under another shape, and so are the gradients.
LayerMemory renamed(const CallShapes& call, int64_t saved);

/// Bytes of a saved shape of so many dims.
inline int64_t shape_bytes(const CallTensor& tensor) { return 8 * int64_t(tensor.shape.size()); }

/// The workspace of a forward that holds these bytes at its busiest moments, output and saved tensors included.
inline void set_forward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments) {
  memory.forward_workspace = std::max<int64_t>(0, std::max(moments) - memory.output - memory.saved);
}

/// Likewise of a backward, gradients of inputs included, what was saved not.
inline void set_backward_peak(LayerMemory& memory, std::initializer_list<int64_t> moments) {
  int64_t gradients = 0;
  for (int64_t bytes : memory.input_gradients) gradients += bytes;
  memory.backward_workspace = std::max<int64_t>(0, std::max(moments) - gradients);
}

}  // namespace trireme::declared
