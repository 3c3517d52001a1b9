#include <ATen/ATen.h>

#include "base/random.h"
#include "runtime/parameter_store.h"

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
  at::Tensor values = at::empty(shape_of(shard.box), flat.options());
  const uint64_t key = random_key(seed, "parameter/" + spec.name);
  if (values.scalar_type() == at::kDouble) draw_into(values.data_ptr<double>(), shard.box, spec.shape, spec.init, key);
  else draw_into(values.data_ptr<float>(), shard.box, spec.shape, spec.init, key);
  ParameterStore::view_of(flat, shard).copy_(values);
}

}  // namespace

void draw_initial_values(const Program& program, BucketId bucket, uint64_t seed, at::Tensor& flat, const std::vector<int>& shards) {
  const auto& all = program.buckets[size_t(bucket)].shards;
  if (shards.empty())
    for (const ParameterShard& shard : all) draw_shard(program, shard, seed, flat);
  else
    for (int s : shards) draw_shard(program, all[size_t(s)], seed, flat);
}

}  // namespace trireme
