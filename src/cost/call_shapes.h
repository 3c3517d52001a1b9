// The tensors of one layer's call on one worker, told from shapes: nothing is run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/layer.h"
#include "runtime/precision.h"

namespace trireme {

struct CallTensor {
  Shape shape;          ///< local, the batch (if it has one) as dim 0
  int64_t element = 4;  ///< bytes of one element

  int64_t count() const { return element_count(shape); }
  int64_t bytes() const { return count() * element; }
};

/// The layer and the option outlive this.
struct CallShapes {
  const Layer* layer = nullptr;
  const ShardingOption* option = nullptr;
  int tensor = 1;
  int64_t samples = 0;
  int64_t compute = 4;  ///< bytes of an element that layers compute with
  int64_t master = 4;   ///< of weights and losses
  std::vector<CallTensor> inputs;
  std::vector<bool> wanted;  ///< by input: its gradient is made
  CallTensor output;
  std::vector<CallTensor> parameters;
};

/// What goes into a layer: sample shapes of the whole inputs, bytes of an element of each, and whose gradients are wanted.
struct CallInputs {
  std::vector<Shape> shapes;
  std::vector<int64_t> elements;
  std::vector<bool> wanted;
};

int64_t compute_size(Precision precision);
int64_t master_size(Precision precision);

/// Whether the layer takes this input for tokens, labels or positions (int64).
bool takes_integers(const Layer& layer, std::span<const Shape> inputs, size_t index);

/// Bytes of an element of the output, for inputs of those sizes.
int64_t output_element(const Layer& layer, const std::vector<int64_t>& inputs, Precision precision);

/// The shard of a worker that has `samples` samples; `option` is one of the layer's at degree `tensor`.
CallShapes call_shapes(const Layer& layer, const CallInputs& inputs, const ShardingOption& option, int tensor, int64_t samples,
                       Precision precision);

}  // namespace trireme
