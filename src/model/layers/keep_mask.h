// The masks of dropout. They are counter-based, so any sharding, any batch split and a recomputation draw the same
// mask.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "trireme/layer.h"

namespace trireme {

/// The part of a sample that a worker holds, for draw_keep_mask. `full`, `offset` and `local` have equal length.
struct SamplePart {
  Shape full;    ///< the whole sample
  Shape offset;  ///< position of the part in the whole sample
  Shape local;   ///< the part's shape
};

/// Returns a byte mask [samples, ...part.local], contiguous: 1 where an element is kept, which has the probability 1 -
/// `drop`. The random word of an element comes from Philox keyed by the call's seed and the layer's name, with stream =
/// step and index = sample in the global batch * elements of a sample + element in the whole sample (method: Srivastava
/// et al., "Dropout", 2014). The bits do not depend on the device.
at::Tensor draw_keep_mask(const LayerCall& call, const Layer& layer, double drop, int64_t samples,
                          const SamplePart& part, c10::Device device);
/// The mask that draw_keep_mask draws on a device that is not the CPU, by libtorch's operators; the same bits.
at::Tensor draw_keep_mask_by_operators(const LayerCall& call, const Layer& layer, double drop, int64_t samples,
                                       const SamplePart& part, c10::Device device);

}  // namespace trireme
