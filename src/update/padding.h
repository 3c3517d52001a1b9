// Where the padding of a replica's weights lies in tensors that are cut from them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/hub.h"
#include "trireme/placement.h"

namespace trireme {

/// Elements of a flat tensor, ascending; the ranges do not overlap.
using Padding = std::vector<Range>;

/// Returns the padding among `elements` elements of a bucket of the state from `offset` on, counted from `offset`.
Padding padding_in(const ReplicaState& state, size_t bucket, int64_t offset, int64_t elements);
/// Returns the padding of each bucket of the state.
std::vector<Padding> padding_by_bucket(const ReplicaState& state);

/// Sets the padding of `tensor`, which is flat, to 0.
void clear_padding(const at::Tensor& tensor, std::span<const Range> padding);

}  // namespace trireme
