// The arithmetic of the local backend's reductions: one pass over memory, vectorised for this machine's processor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "trireme/communicator.h"

namespace trireme {

/// True if elements of `dtype` can be reduced: Float, Double, BFloat16 (added in float, rounded once), Long, Int.
bool can_reduce(at::ScalarType dtype);

/// out[i] = inputs[0][i] + inputs[1][i] + ... (or their maximum, NaN if one is NaN) for i in [0, count), written to
/// every output. An output may be identical to an input, but must not overlap one otherwise. `count` is in elements.
void reduce(at::ScalarType dtype, ReduceOp op, std::span<const void* const> inputs, std::span<void* const> outputs,
            int64_t count);

}  // namespace trireme
