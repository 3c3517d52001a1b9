// Shapes and element sizes of the tensors of one layer call on one worker, derived from the model's shapes and the
// precision.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/precision.h"
#include "trireme/layer.h"

namespace trireme {

/// The inputs of a layer: per input, the sample shape of the whole tensor, bytes per element, and whether its gradient
/// is computed.
struct CallInputs {
  std::vector<Shape> shapes;
  std::vector<int64_t> elements;
  std::vector<bool> wanted;
};

int64_t compute_size(Precision precision);
int64_t master_size(Precision precision);

/// Bytes per element of the output, given the bytes per element of each input.
int64_t output_element(const Layer& layer, const std::vector<int64_t>& inputs, Precision precision);

/// The tensors of a call on a worker whose data shard has `samples` samples. `data` is 1: the call does not communicate
/// over the data axis. `option` is one of the layer's options at degree `tensor`.
CallShapes call_shapes(const Layer& layer, const CallInputs& inputs, const ShardingOption& option, int tensor,
                       int64_t samples, Precision precision);

/// The communication inside the call; empty if the call does not communicate. Redistributions between layers belong to
/// the program and are not included.
LayerExchanges exchanges_of(const CallShapes& call);

}  // namespace trireme
