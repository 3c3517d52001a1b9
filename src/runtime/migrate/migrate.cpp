#include "runtime/migrate/migrate.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/memory.h"
#include "runtime/replicas/flat_shard.h"
#include "trireme/error.h"

namespace trireme {
namespace {

bool holds(const Bucket& bucket, int rank) {
  return std::binary_search(bucket.holders.begin(), bucket.holders.end(), rank);
}

/// Returns the number of elements of the region `wanted` of which `rank` has no copy.
int64_t lacking(const Program& program, int rank, const std::string& name, const ParameterShard& wanted) {
  int64_t held = 0;
  for (const Bucket& bucket : program.buckets)
    for (const ParameterShard& shard : bucket.shards) {
      if (!holds(bucket, rank) || program.parameters[size_t(shard.parameter)].spec.name != name) continue;
      int64_t common = 1;
      for (size_t d = 0; d < wanted.box.size(); ++d)
        common *= std::max<int64_t>(
            0, std::min(wanted.box[d].end, shard.box[d].end) - std::max(wanted.box[d].begin, shard.box[d].begin));
      held = std::max(held, common);
    }
  return wanted.size() - held;
}

}  // namespace

void add_errors(const std::vector<FactorPiece>& pieces, std::vector<at::Tensor>& sums) {
  const bool is_first = sums.empty();
  sums.resize(pieces.size());
  for (size_t p = 0; p < pieces.size(); ++p) {
    check_internal(pieces[p].error.defined(), "contributors keep errors");
    const at::Tensor own = pieces[p].error.to(at::kCPU);
    sums[p] = is_first ? own : sums[p].to(at::kCPU) + own;
  }
}

int64_t bytes_to_move(const Program& from, const Program& to, int states, int64_t bytes_per_value,
                      const std::vector<int>& was) {
  const bool divided =
      from.optimizer_sharding != OptimizerSharding::none || to.optimizer_sharding != OptimizerSharding::none;
  const bool sliced =
      from.optimizer_sharding == OptimizerSharding::zero3 || to.optimizer_sharding == OptimizerSharding::zero3;
  int64_t most = 0;
  for (int rank = 0; rank < to.devices; ++rank) {
    const int before = was.empty() ? rank : was[size_t(rank)];
    int64_t values = 0;
    for (const Bucket& bucket : to.buckets) {
      if (!holds(bucket, rank)) continue;
      const bool has_state = !bucket.contributors.empty();
      for (const ParameterShard& shard : bucket.shards) {
        const int64_t lacks = lacking(from, before, to.parameters[size_t(shard.parameter)].spec.name, shard);
        values += sliced ? 0 : lacks;
        if (has_state && !divided) values += lacks * states;
      }
      const int64_t own =
          to.optimizer_sharding == OptimizerSharding::none ? bucket.elements : bucket.slice_of(rank).size();
      if (sliced) values += to.optimizer_sharding == OptimizerSharding::zero3 ? own : bucket.elements;
      if (has_state && divided) values += own * states;
    }
    most = std::max(most, values * bytes_per_value);
  }
  return most;
}

void StateGatherer::reuse(TrainingState old) {
  state_ = {};
  state_.weights = std::move(old.weights);      // all of these are overwritten;
  state_.optimizer = std::move(old.optimizer);  // the state of layers may have fewer entries next time
}

void StateGatherer::gather(int rank, Worker& worker, const ParameterStore& store) {
  DeviceScope uncharged(kNoDevice);
  worker.settle();
  worker.barrier();
  if (rank == 0) state_.updates = worker.updates();
  worker.barrier();
  for (BucketId b = rank; b < BucketId(program_.buckets.size()); b += program_.devices) {
    add_bucket(b, store);
    add_factors(b, store);
  }
  add(worker.held());
  worker.barrier();
}

void StateGatherer::add_bucket(BucketId id, const ParameterStore& store) {
  const Bucket& bucket = program_.buckets[size_t(id)];
  std::vector<at::Tensor> flats{store.whole_bucket(id, [](const ReplicaPiece& piece) { return piece.master; })};
  check_internal(flats[0].defined(), "the holders of a bucket have all its weights");
  for (size_t k = 0; has_state(bucket); ++k) {
    flats.push_back(store.whole_bucket(
        id, [k](const ReplicaPiece& piece) { return k < piece.state.size() ? piece.state[k] : at::Tensor(); }));
    if (flats.back().defined()) continue;
    flats.pop_back();
    break;
  }
  add_shards(bucket, flats);
}

void StateGatherer::gather_alone(Worker& worker) {
  const DeviceScope uncharged(kNoDevice);
  state_.updates = worker.updates();
  for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
    const Bucket& bucket = program_.buckets[size_t(b)];
    const std::vector<ReplicaPiece> pieces = worker.replicas().pieces(b);
    check_internal(pieces.size() == 1 && pieces[0].range.size() == bucket.elements,
                   "a worker that continues alone has whole buckets");
    std::vector<at::Tensor> flats{pieces[0].master};
    if (has_state(bucket)) flats.insert(flats.end(), pieces[0].state.begin(), pieces[0].state.end());
    add_shards(bucket, flats);
  }
  add(worker.held());
}

/// `flats`: the weights, then the optimizer's state.
void StateGatherer::add_shards(const Bucket& bucket, const std::vector<at::Tensor>& flats) {
  for (const ParameterShard& shard : bucket.shards) {
    const ParameterSpec& spec = program_.parameters[size_t(shard.parameter)].spec;
    std::vector<at::Tensor> full;
    {
      MutexLock lock(mutex_);
      full.push_back(tensor_of(state_.weights[spec.name], spec.shape, flats[0]));
      if (flats.size() > 1) {
        std::vector<at::Tensor>& states = state_.optimizer[spec.name];
        states.resize(flats.size() - 1);
        for (at::Tensor& tensor : states) full.push_back(tensor_of(tensor, spec.shape, flats[0]));
      }
    }
    for (size_t k = 0; k < full.size(); ++k) part_of(full[k], shard.box).copy_(view_of_shard(flats[k], shard));
  }
}

std::vector<const ParameterShard*> StateGatherer::factored(const Bucket& bucket) const {
  std::vector<const ParameterShard*> shards;
  if (!has_state(bucket)) return shards;
  for (const ParameterShard& shard : bucket.shards)
    if (sends_factors(program_, bucket, shard)) shards.push_back(&shard);
  return shards;
}

/// Adds from the last contributor to the first, as processes do.
void StateGatherer::add_factors(BucketId id, const ParameterStore& store) {
  const Bucket& bucket = program_.buckets[size_t(id)];
  const size_t count = factored(bucket).size();
  if (count == 0) return;
  std::vector<at::Tensor> sums, factors;
  factors.reserve(count);
  for (auto rank = bucket.contributors.rbegin(); rank != bucket.contributors.rend(); ++rank)
    add_errors(store.factors(id, *rank), sums);
  for (const FactorPiece& piece : store.factors(id, bucket.holders.front())) factors.push_back(piece.factor);
  check_internal(sums.size() == count && factors.size() == count, "workers keep what the program compresses");
  put_factors(bucket, sums, factors);
}

/// `sums` and `factors`: by shard of factored().
void StateGatherer::put_factors(const Bucket& bucket, const std::vector<at::Tensor>& sums,
                                const std::vector<at::Tensor>& factors) {
  const std::vector<const ParameterShard*> shards = factored(bucket);
  for (size_t s = 0; s < shards.size(); ++s) {
    const ParameterSpec& spec = program_.parameters[size_t(shards[s]->parameter)].spec;
    at::Tensor full;
    {
      MutexLock lock(mutex_);
      at::Tensor& error = state_.errors[spec.name];
      if (!error.defined()) error = at::zeros(spec.shape, at::TensorOptions().dtype(sums[s].scalar_type()));
      full = error;
      state_.factors[factor_name(spec.name, shards[s]->box)] = factors[s].to(at::kCPU).clone();
    }
    ParameterShard alone = *shards[s];
    alone.offset = 0;
    part_of(full, alone.box).copy_(view_of_shard(sums[s], alone));
  }
}

at::Tensor& StateGatherer::tensor_of(at::Tensor& full, const Shape& shape, const at::Tensor& like) {
  if (!full.defined()) full = at::empty(shape, at::TensorOptions().dtype(like.scalar_type()));
  return full;
}

void StateGatherer::add(const HeldParts& held) {
  add(held.buffers, state_.buffers);
  add(held.averaged_buffers, state_.averaged_buffers);
  add(held.carried, state_.carried);
}

void StateGatherer::add(const std::vector<HeldPart>& parts, TensorMap& tensors) {
  for (const HeldPart& part : parts) {
    MutexLock lock(mutex_);
    part_of(tensor_of(tensors[part.name], part.shape, part.values), part.box).copy_(part.values);
  }
}

}  // namespace trireme
