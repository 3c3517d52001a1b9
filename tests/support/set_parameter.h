// Weights that a test chooses.
#pragma once

#include <ATen/ATen.h>

#include "runtime/replicas/flat_shard.h"
#include "runtime/replicas/parameter_store.h"

namespace trireme::test_support {

/// Sets a parameter on all holders from a full tensor; only while no step is running. `program`: the store's.
inline void set_parameter(const ParameterStore& store, const Program& program, int parameter, const at::Tensor& full) {
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b)
    for (const ParameterShard& shard : program.buckets[size_t(b)].shards) {
      if (shard.parameter != parameter) continue;
      const at::Tensor flat = store.whole_bucket(b, [](const ReplicaPiece& piece) { return piece.master; }).clone();
      view_of_shard(flat, shard).copy_(part_of(full, shard.box));
      store.whole_bucket(b, [&](const ReplicaPiece& piece) {
        const at::Tensor part = flat.narrow(0, piece.range.begin, piece.range.size());
        if (piece.master.defined()) at::Tensor(piece.master).copy_(part);
        if (!piece.compute.is_same(piece.master)) at::Tensor(piece.compute).copy_(part);
        return at::Tensor();  // so that every piece is visited
      });
    }
}

}  // namespace trireme::test_support
