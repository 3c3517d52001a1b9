// What the holders of a bucket have, put together on one rank, where workers share no memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "program/program.h"
#include "runtime/replicas/replicas.h"
#include "trireme/communicator.h"

namespace trireme {

/// Of every piece the same tensors in the same order; undefined ones where it has none.
using TensorsOfPiece = std::function<std::vector<at::Tensor>(const ReplicaPiece& piece)>;

/// `count` flat tensors of dtype `dtype` over the whole bucket: rank 0 of `world` gets them, for reading only, the
/// others give what it lacks and get none. All ranks together, between two steps. What `tensors` takes of a piece may
/// be sent from where it lies: nobody writes to it before all ranks have met again. Messages have the bucket's number
/// as their tag.
std::vector<at::Tensor> collect_bucket(const Program& program, BucketId id, Replicas& replicas, Communicator& world,
                                       int count, at::ScalarType dtype, const TensorsOfPiece& tensors);

}  // namespace trireme
