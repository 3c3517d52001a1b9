// Conversions between full tensors and the flat buckets of which workers hold pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include "program/program.h"

namespace trireme {

/// Returns the region `box` of `tensor` as a view.
at::Tensor part_of(at::Tensor tensor, const Box& box);

/// Returns the view of a flat bucket tensor that is the shard: the shard's shape, channels_last strides for 4-D
/// parameters.
at::Tensor view_of_shard(const at::Tensor& flat, const ParameterShard& shard);

/// Returns the shard's values, taken from the full tensor, in the order in which they lie in the bucket.
at::Tensor flat_shard(const at::Tensor& full, ParameterShard shard);

/// Copies the common elements of `from` and `to`. `from` begins at element `offset` of a bucket; `to` holds the
/// bucket's elements `range`, or is undefined.
void copy_overlap(const at::Tensor& from, int64_t offset, const Range& range, const at::Tensor& to);

}  // namespace trireme
