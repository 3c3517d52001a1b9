// Between full tensors and the flat buckets that workers hold pieces of.
#pragma once

#include <ATen/core/Tensor.h>

#include "program/program.h"

namespace trireme {

/// The view of `tensor` that `box` is.
at::Tensor part_of(at::Tensor tensor, const Box& box);

/// A shard's view of a flat bucket tensor: its shape, channels_last strides for 4-D parameters.
at::Tensor view_of_shard(const at::Tensor& flat, const ParameterShard& shard);

/// A shard's values as they lie in its bucket, taken from the full tensor.
at::Tensor flat_shard(const at::Tensor& full, ParameterShard shard);

/// Copies what `from`, at element `offset` of a bucket, and `to`, which is the bucket's elements `range` or undefined,
/// have in common.
void copy_overlap(const at::Tensor& from, int64_t offset, const Range& range, const at::Tensor& to);

}  // namespace trireme
