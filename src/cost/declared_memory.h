// What a layer's call holds in memory, known from what each kind of layer keeps: nothing is run. Tested against what the calls
// really hold (tests/cost/declared_memory_test.cpp), whose implementation on the CPU it describes.
#pragma once

#include <string_view>

#include "cost/call_shapes.h"
#include "profile/layer_memory.h"

namespace trireme {

/// Of one call in training. Kinds that it does not know (imported operators) are taken to keep their inputs and their output. Workspaces
/// are what a call holds at its peak besides its output and what it saves (backward: besides the inputs' gradients), without what
/// libraries take within their kernels (oneDNN for convolutions and for products in bfloat16).
LayerMemory declared_memory(const CallShapes& call);

/// Whether it knows the kind.
bool declares_memory(std::string_view kind);

}  // namespace trireme
