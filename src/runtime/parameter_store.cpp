#include "runtime/parameter_store.h"

#include <ATen/ATen.h>

#include "base/memory.h"
#include "base/random.h"

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

at::Tensor slice_box(at::Tensor tensor, const Box& box) {
  for (size_t d = 0; d < box.size(); ++d) tensor = tensor.narrow(int64_t(d), box[d].begin, box[d].size());
  return tensor;
}

}  // namespace

ParameterStore::ParameterStore(const Program& program, Precision precision)
    : program_(program), precision_(precision) {
  DeviceScope nobody(kNoDevice);
  const auto master = at::TensorOptions().dtype(master_type(precision));
  for (const Bucket& bucket : program.buckets) {
    auto store = std::make_unique<BucketStore>();
    store->master = at::zeros({bucket.elements}, master);
    bool narrow = precision == Precision::bf16 && !bucket.full_precision;
    store->compute = narrow ? at::zeros({bucket.elements}, at::kBFloat16) : store->master;
    store->gradients.resize(bucket.contributors.size());
    if (program.keeps_gradients) store->reduced = at::zeros({bucket.elements}, master);
    buckets_.push_back(std::move(store));
  }
  charge_holders();
}

ParameterStore::Charges::~Charges() {
  for (const Charge& charge : made_) charge_memory(charge.device, charge.category, -charge.bytes);
}

void ParameterStore::Charges::add(const Charge& charge) {
  charge_memory(charge.device, charge.category, charge.bytes);
  made_.push_back(charge);
}

void ParameterStore::charge_holders() {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const BucketStore& store = *buckets_[b];
    int64_t weight = store.master.element_size();
    if (!store.compute.is_same(store.master)) weight += store.compute.element_size();
    for (int holder : program_.buckets[b].holders) {
      int64_t elements = program_.buckets[b].slice_of(holder).size();
      charges_.add({holder, MemoryCategory::weights, elements * weight});
      if (store.reduced.defined())
        charges_.add({holder, MemoryCategory::gradients, elements * store.reduced.element_size()});
    }
  }
}

at::Tensor ParameterStore::view_of(const at::Tensor& flat, const ParameterShard& shard) {
  Shape shape = shape_of(shard.box);
  if (shape.size() != 4) return flat.narrow(0, shard.offset, shard.size()).view(shape);
  const int64_t c = shape[1], h = shape[2], w = shape[3];
  return flat.as_strided(shape, {c * h * w, 1, w * c, c}, flat.storage_offset() + shard.offset);
}

void ParameterStore::initialize(int rank, uint64_t seed) {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const Bucket& bucket = program_.buckets[b];
    for (size_t s = 0; s < bucket.shards.size(); ++s) {
      if (bucket.holders[s % bucket.holders.size()] != rank) continue;
      const ParameterShard& shard = bucket.shards[s];
      const ParameterSpec& spec = program_.parameters[size_t(shard.parameter)].spec;
      at::Tensor values = at::empty(shape_of(shard.box), buckets_[b]->master.options());
      uint64_t key = random_key(seed, "parameter/" + spec.name);
      if (values.scalar_type() == at::kDouble) draw_into(values.data_ptr<double>(), shard.box, spec.shape, spec.init, key);
      else draw_into(values.data_ptr<float>(), shard.box, spec.shape, spec.init, key);
      view_of(buckets_[b]->master, shard).copy_(values);
      if (!buckets_[b]->compute.is_same(buckets_[b]->master)) view_of(buckets_[b]->compute, shard).copy_(values);
    }
  }
}

at::Tensor ParameterStore::assemble(int parameter, const at::Tensor BucketStore::*flat) const {
  at::Tensor full;
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (const ParameterShard& shard : program_.buckets[b].shards) {
      const at::Tensor& source = (*buckets_[b]).*flat;
      if (shard.parameter != parameter || !source.defined()) continue;
      if (!full.defined()) full = at::empty(program_.parameters[size_t(parameter)].spec.shape, source.options());
      slice_box(full, shard.box).copy_(view_of(source, shard));
    }
  return full;
}

at::Tensor ParameterStore::full_parameter(int parameter) const { return assemble(parameter, &BucketStore::master); }

at::Tensor ParameterStore::full_gradient(int parameter) const { return assemble(parameter, &BucketStore::reduced); }

void ParameterStore::set_parameter(int parameter, const at::Tensor& full) {
  for (size_t b = 0; b < buckets_.size(); ++b)
    for (const ParameterShard& shard : program_.buckets[b].shards) {
      if (shard.parameter != parameter) continue;
      view_of(buckets_[b]->master, shard).copy_(slice_box(full, shard.box));
      if (!buckets_[b]->compute.is_same(buckets_[b]->master))
        view_of(buckets_[b]->compute, shard).copy_(slice_box(full, shard.box));
    }
}

}  // namespace trireme
