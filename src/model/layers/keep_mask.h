// Which elements dropout keeps: counter-based, so that any sharding, any batch split and a recomputation draw the same
// mask.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/layer.h"

namespace trireme {

/// The part of a sample that a worker holds, for draw_keep_mask: equal lengths of `full`, `offset` and `local`.
struct SamplePart {
  Shape full;    ///< the whole sample
  Shape offset;  ///< where the part begins in it
  Shape local;   ///< the part's shape
};

/// Byte mask [samples, ...part.local], contiguous: 1 where an element is kept, which has the chance 1 - `drop`. The
/// random word of an element: Philox keyed by the call's seed and the layer's name, stream = step, index = sample in
/// the global batch * elements of a sample + element in the whole sample (Srivastava et al., "Dropout", 2014, for the
/// method).
at::Tensor draw_keep_mask(const LayerCall& call, const Layer& layer, double drop, int64_t samples,
                          const SamplePart& part);

}  // namespace trireme
