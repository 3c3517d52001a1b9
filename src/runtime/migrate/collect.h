// Collects a bucket from its holders on one rank, for workers that share no memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "trireme/communicator.h"

namespace trireme {

/// Returns, for each piece, the same tensors in the same order. A tensor that the piece does not hold is undefined.
using TensorsOfPiece = std::function<std::vector<at::Tensor>(const ReplicaPiece& piece)>;

/// Collects `count` flat tensors of dtype `dtype` over the whole bucket. Rank 0 of `world` returns them, for reading
/// only. The other ranks send what rank 0 lacks and return an empty list. All ranks must call it together, between two
/// steps. A tensor that `tensors` returns may be sent without a copy: no rank may write to it before the next barrier
/// of all ranks. Messages use the bucket's number as their tag.
std::vector<at::Tensor> collect_bucket(const Program& program, BucketId id, Replicas& replicas, Communicator& world,
                                       int count, at::ScalarType dtype, const TensorsOfPiece& tensors);

}  // namespace trireme
