#include "runtime/migrate/collect.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns elements `range` of what this rank holds of tensor `k`: a view if one piece contains them all, otherwise a
/// copy.
at::Tensor held_part(const std::vector<ReplicaPiece>& pieces, Range range, size_t k, at::ScalarType dtype,
                     const TensorsOfPiece& tensors) {
  for (const ReplicaPiece& piece : pieces) {
    const at::Tensor values = tensors(piece).at(k);
    if (values.defined() && piece.range.begin <= range.begin && range.end <= piece.range.end)
      return values.narrow(0, range.begin - piece.range.begin, range.size());
  }
  at::Tensor part = at::empty({range.size()}, at::TensorOptions().dtype(dtype));
  for (const ReplicaPiece& piece : pieces)
    if (const at::Tensor values = tensors(piece).at(k); values.defined())
      copy_overlap(values, piece.range.begin, range, part);
  return part;
}

}  // namespace

std::vector<at::Tensor> collect_bucket(const Program& program, BucketId id, Replicas& replicas, Communicator& world,
                                       int count, at::ScalarType dtype, const TensorsOfPiece& tensors) {
  const Bucket& bucket = program.buckets[size_t(id)];
  const int rank = world.rank();
  const bool divided = program.optimizer_sharding != OptimizerSharding::none && bucket.holders.size() > 1;
  const bool rank_0_holds = bucket.holders.front() == 0;
  const bool lacks = divided || !rank_0_holds;                            // true if rank 0 lacks a part
  const std::vector<int> givers = bucket.run_of(bucket.holders.front());  // the others hold copies of their slices
  std::vector<at::Tensor> flats;
  if (rank != 0) {
    if (!lacks || !std::binary_search(givers.begin(), givers.end(), rank)) return flats;
    const std::vector<ReplicaPiece> pieces = replicas.pieces(id);
    for (int k = 0; k < count; ++k)
      world.send(held_part(pieces, bucket.slice_of(rank), size_t(k), dtype, tensors), 0, id);
    return flats;
  }
  const Range whole{0, bucket.elements};
  const std::vector<ReplicaPiece> pieces = rank_0_holds ? replicas.pieces(id) : std::vector<ReplicaPiece>{};
  for (int k = 0; k < count; ++k) {
    if (!lacks) {
      flats.push_back(held_part(pieces, whole, size_t(k), dtype, tensors));
      continue;
    }
    flats.push_back(at::empty({bucket.elements}, at::TensorOptions().dtype(dtype)));
    if (rank_0_holds) {
      const Range own = bucket.slice_of(0);
      flats.back().narrow(0, own.begin, own.size()).copy_(held_part(pieces, own, size_t(k), dtype, tensors));
    }
  }
  for (const int holder : givers) {
    if (holder == 0 || !lacks) continue;
    const Range slice = bucket.slice_of(holder);
    for (at::Tensor& flat : flats) {
      const at::Tensor part = world.receive(holder, id);
      check_internal(part.numel() == slice.size(), "a holder gives its slice of a bucket");
      flat.narrow(0, slice.begin, slice.size()).copy_(part);
    }
  }
  return flats;
}

}  // namespace trireme
