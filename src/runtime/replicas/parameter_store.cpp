#include "runtime/replicas/parameter_store.h"

#include <ATen/ATen.h>

#include "base/devices/device.h"
#include "base/memory.h"
#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {

Replicas::Replicas(const Program& program) {
  for (const Bucket& bucket : program.buckets) {
    written_.push_back(std::make_unique<bool[]>(bucket.shards.size()));
    std::fill_n(written_.back().get(), bucket.shards.size(), false);
  }
}

void Replicas::note_replayed(BucketId) { check_internal(false, "only steps with shared replicas are replayed"); }

ParameterStore::ParameterStore(const Program& program, Precision precision, int first_device)
    : program_(program),
      precision_(precision),
      first_device_(first_device),
      replicas_(size_t(program.devices), nullptr) {
  DeviceScope uncharged(kNoDevice);
  if (!program.private_replicas) allocate();
}

void ParameterStore::allocate() {
  const auto master = at::TensorOptions().dtype(master_type(precision_)).device(place_of(first_device_));
  for (const Bucket& bucket : program_.buckets) {
    auto store = std::make_unique<BucketStore>();
    const bool narrow = precision_ == Precision::bf16 && !bucket.full_precision;
    for (int v = 0; v < (narrow ? 1 : bucket.versions); ++v)
      store->master.push_back(at::zeros({bucket.elements}, master));
    for (int v = 0; v < bucket.versions; ++v)
      store->compute.push_back(narrow ? at::zeros({bucket.elements}, master.dtype(at::kBFloat16))
                                      : store->master[size_t(v)]);
    store->gradients.resize(bucket.contributors.size());
    if (program_.keeps_gradients && !bucket.contributors.empty()) store->reduced = at::zeros({bucket.elements}, master);
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
    const bool narrow = !store.compute[0].is_same(store.master[0]);
    int64_t weight = store.master[0].element_size() * int64_t(store.master.size());
    if (narrow) weight += store.compute[0].element_size() * int64_t(store.compute.size());
    for (int holder : program_.buckets[b].holders) {
      int64_t elements = program_.buckets[b].slice_of(holder).size();
      charges_.add({first_device_ + holder, MemoryCategory::weights, elements * weight});
      if (store.reduced.defined())
        charges_.add({first_device_ + holder, MemoryCategory::gradients, elements * store.reduced.element_size()});
    }
  }
}

at::Tensor ParameterStore::whole_bucket(BucketId id, const PartOfPiece& part) const {
  const Bucket& bucket = program_.buckets[size_t(id)];
  at::Tensor whole;
  int64_t covered = 0;
  for (int holder : bucket.holders) {
    if (covered == bucket.elements) break;
    check_internal(replicas_[size_t(holder)] != nullptr, "full tensors are assembled while all workers are attached");
    for (const ReplicaPiece& piece : replicas_[size_t(holder)]->pieces(id)) {
      const at::Tensor source = part(piece);
      if (!source.defined()) continue;
      if (piece.range.size() == bucket.elements) return source;
      if (!whole.defined()) whole = at::empty({bucket.elements}, source.options());
      if (piece.range.begin != covered) continue;  // already copied from another holder
      whole.narrow(0, piece.range.begin, piece.range.size()).copy_(source);
      covered = piece.range.end;
    }
  }
  return covered == bucket.elements ? whole : at::Tensor();
}

std::vector<FactorPiece> ParameterStore::factors(BucketId bucket, int rank) const {
  check_internal(replicas_[size_t(rank)] != nullptr, "factors are read while all workers are attached");
  return replicas_[size_t(rank)]->factors(bucket);
}

at::Tensor ParameterStore::assemble(int parameter, const at::Tensor ReplicaPiece::*flat) const {
  at::Tensor full;
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
    at::Tensor source;
    for (const ParameterShard& shard : program_.buckets[size_t(b)].shards) {
      if (shard.parameter != parameter) continue;
      if (!source.defined()) source = whole_bucket(b, [&](const ReplicaPiece& piece) { return piece.*flat; });
      if (!source.defined()) return {};
      if (!full.defined()) full = at::empty(program_.parameters[size_t(parameter)].spec.shape, source.scalar_type());
      part_of(full, shard.box).copy_(view_of_shard(source, shard));
    }
  }
  return full;
}

at::Tensor ParameterStore::full_parameter(int parameter) const { return assemble(parameter, &ReplicaPiece::master); }

at::Tensor ParameterStore::full_gradient(int parameter) const { return assemble(parameter, &ReplicaPiece::reduced); }

at::Tensor ParameterStore::full_average(int parameter) const { return assemble(parameter, &ReplicaPiece::average); }

}  // namespace trireme
