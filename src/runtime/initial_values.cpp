#include <ATen/ATen.h>

#include <algorithm>

#include "base/random.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/replicas/parameter_store.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Values of `box` of a tensor of `shape` in row-major order; element i of the full tensor depends on (key, i) only.
template <class T>
void draw_into(T* out, const Box& box, const Shape& shape, const Init& init, uint64_t key) {
  Philox random(key);
  const size_t dims = shape.size();
  const int64_t count = element_count(shape_of(box));
  std::vector<int64_t> at(dims);
  for (size_t d = 0; d < dims; ++d) at[d] = box[d].begin;
  for (int64_t n = 0; n < count; ++n) {
    int64_t index = 0;
    for (size_t d = 0; d < dims; ++d) index = index * shape[d] + at[d];
    switch (init.kind) {
      case Init::Kind::constant: out[n] = T(init.a); break;
      case Init::Kind::uniform: out[n] = T(init.a + (init.b - init.a) * random.uniform(uint64_t(index))); break;
      case Init::Kind::normal: out[n] = T(init.a + init.b * random.normal(uint64_t(index))); break;
    }
    for (size_t d = dims; d-- > 0;) {
      if (++at[d] < box[d].end) break;
      at[d] = box[d].begin;
    }
  }
}

void draw_shard(const Program& program, const ParameterShard& shard, uint64_t seed, at::Tensor& flat) {
  const ParameterSpec& spec = program.parameters[size_t(shard.parameter)].spec;
  at::Tensor values = at::empty(shape_of(shard.box), flat.options().device(at::kCPU));  // drawn by the host
  const uint64_t key = random_key(seed, "parameter/" + spec.name);
  if (values.scalar_type() == at::kDouble) draw_into(values.data_ptr<double>(), shard.box, spec.shape, spec.init, key);
  else draw_into(values.data_ptr<float>(), shard.box, spec.shape, spec.init, key);
  view_of_shard(flat, shard).copy_(values);
}

}  // namespace

void give_initial_values(const Program& program, int rank, const TensorMap& values, Replicas& replicas) {
  for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
    const Bucket& bucket = program.buckets[size_t(b)];
    if (!std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank)) continue;
    const std::vector<ReplicaPiece> pieces = replicas.pieces(b);
    for (size_t s = 0; s < bucket.shards.size(); ++s) {
      if (!program.private_replicas && bucket.holders[s % bucket.holders.size()] != rank) continue;
      const ParameterShard& shard = bucket.shards[s];
      const ParameterSpec& spec = program.parameters[size_t(shard.parameter)].spec;
      const auto given = values.find(spec.name);
      if (given == values.end()) continue;
      check_internal(given->second.sizes() == at::IntArrayRef(spec.shape),
                     "initial values have the parameters' shapes");
      const at::Tensor flat = flat_shard(given->second, shard);
      for (const ReplicaPiece& piece : pieces) {
        copy_overlap(flat, shard.offset, piece.range, piece.master);
        copy_overlap(flat, shard.offset, piece.range, piece.compute);
      }
    }
  }
}

at::Tensor drawn_parameter(const ParameterSpec& spec, uint64_t seed) {
  at::Tensor values = at::empty(spec.shape, at::kFloat);
  draw_into(values.data_ptr<float>(), whole(spec.shape), spec.shape, spec.init,
            random_key(seed, "parameter/" + spec.name));
  return values;
}

void draw_initial_values(const Program& program, BucketId bucket, uint64_t seed, at::Tensor& flat,
                         const std::vector<int>& shards) {
  const auto& all = program.buckets[size_t(bucket)].shards;
  if (shards.empty())
    for (const ParameterShard& shard : all) draw_shard(program, shard, seed, flat);
  else
    for (int s : shards) draw_shard(program, all[size_t(s)], seed, flat);
}

}  // namespace trireme
