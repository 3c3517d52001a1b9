// The tensors of a layer's call on one worker under a precision, told from the model's shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/precision.h"
#include "trireme/layer_facts.h"

namespace trireme {

/// What goes into a layer: sample shapes of the whole inputs, bytes of an element of each, and whose gradients are
/// wanted.
struct CallInputs {
  std::vector<Shape> shapes;
  std::vector<int64_t> elements;
  std::vector<bool> wanted;
};

int64_t compute_size(Precision precision);
int64_t master_size(Precision precision);

/// Bytes of an element of the output, for inputs of those sizes.
int64_t output_element(const Layer& layer, const std::vector<int64_t>& inputs, Precision precision);

/// The shard of a worker that has `samples` samples and keeps to them; `option` is one of the layer's at degree
/// `tensor`.
CallShapes call_shapes(const Layer& layer, const CallInputs& inputs, const ShardingOption& option, int tensor,
                       int64_t samples, Precision precision);

/// What the call exchanges within itself; nothing where it communicates with nobody. Redistributions between layers are
/// the program's.
LayerExchanges exchanges_of(const CallShapes& call);

}  // namespace trireme
