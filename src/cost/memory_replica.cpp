#include "cost/memory_replica.h"

#include <algorithm>

#include "program/reductions.h"
#include "runtime/replicas/compression.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kBfloat16Bytes = 2, kDoubleBytes = 8;

}  // namespace

ReplicaMemory::ReplicaMemory(const RankSizes& sizes, MemoryTally& tally)
    : sizes_(sizes),
      tally_(tally),
      master_(sizes.all().master_bytes()),
      compute_(sizes.all().compute_bytes()),
      one_at_a_time_(sizes.all().options().sums_beside && reduces_one_at_a_time(program())),
      own_(program().buckets.size()) {
  for (BucketId b = 0; b < BucketId(own_.size()); ++b) {
    const Bucket& it = bucket(b);
    if (!std::binary_search(it.holders.begin(), it.holders.end(), sizes_.rank())) continue;
    Own& own = of(b);
    own.held = true;
    own.alone = it.holders.size() == 1;
    own.frozen = it.contributors.empty() || !program().training;
    own.contributes = !own.frozen && std::binary_search(it.contributors.begin(), it.contributors.end(), sizes_.rank());
    own.part = it.slice_of(sizes_.rank()).size();
    if (program().private_replicas) hold_private(b, own);
    else hold_shared(b, own);
  }
  for (BucketId b = 0; b < BucketId(own_.size()); ++b)
    if (of(b).held) draw(b, of(b));
  if (program().private_replicas) return;
  for (BucketId b = 0; b < BucketId(own_.size()); ++b)  // state that the first update creates
    if (of(b).held) make_state(b, of(b));
}

int64_t ReplicaMemory::gradient_bytes(const Bucket& it) const {
  return stores_bf16(program(), it) ? kBfloat16Bytes : master_;
}

void ReplicaMemory::keep(Own& own, MemoryCategory category, int64_t bytes) {
  if (bytes > 0) own.always.push_back(allocate(tally_, category, bytes));
}

void ReplicaMemory::make_state(BucketId id, Own& own) {
  if (own.frozen) return;
  const bool whole = program().private_replicas && !divides(own, OptimizerSharding::zero1);
  const int64_t elements = whole ? bucket(id).elements : own.part;
  keep(own, MemoryCategory::optimizer, optimizer_state_count(sizes_.all().options().optimizer) * elements * master_);
}

/// Counts shared weights: one copy for all holders. Each holder is charged for the slice that it updates.
void ReplicaMemory::hold_shared(BucketId id, Own& own) {
  const Bucket& it = bucket(id);
  const bool narrow = sizes_.all().is_narrow(it);
  const int64_t each = narrow ? master_ + it.versions * compute_ : it.versions * master_;
  keep(own, MemoryCategory::weights, own.part * each);
  if (program().keeps_gradients && !it.contributors.empty()) keep(own, MemoryCategory::gradients, own.part * master_);
  if (own.contributes) keep(own, MemoryCategory::gradients, it.elements * master_);
}

void ReplicaMemory::hold_private(BucketId id, Own& own) {
  const Bucket& it = bucket(id);
  const bool narrow = sizes_.all().is_narrow(it), divided = divides(own, OptimizerSharding::zero1);
  if (divides(own, OptimizerSharding::zero3)) {
    keep(own, MemoryCategory::weights, own.part * (narrow ? master_ + compute_ : master_));
  } else {
    const int64_t versions = own.frozen ? 1 : it.versions;
    keep(own, MemoryCategory::weights, versions * it.elements * (narrow ? compute_ : master_));
    if (narrow) keep(own, MemoryCategory::weights, (divided ? own.part : it.elements) * master_);
  }
  make_state(id, own);
  if (own.frozen) return;
  if (divides(own, OptimizerSharding::zero2)) keep(own, MemoryCategory::gradients, own.part * master_);
  else if (own.contributes) keep(own, MemoryCategory::gradients, it.elements * gradient_bytes(it));
  if (!own.alone && program().compression.kind == Compression::Kind::powersgd) hold_factors(id, own);
}

/// Counts the tensors of PowerSgd. Q and the errors are permanent. While it runs: P, Q and, for the orthonormalisation
/// of P's columns, two copies in double of the columns of one shard.
void ReplicaMemory::hold_factors(BucketId id, Own& own) {
  const int64_t rank = program().compression.rank;
  int64_t left = 0, right = 0, widest = 0, kept = 0;
  for (const ParameterShard& shard : bucket(id).shards) {
    const Shape shape = shape_of(shard.box);
    if (!PowerSgd::pays(shape, int(rank))) {
      left += shard.size();
      continue;
    }
    const int64_t rows = shape[0], columns = shard.size() / rows;
    left += rows * rank;
    right += columns * rank;
    widest = std::max(widest, rows * rank);
    kept += columns * rank + (own.contributes ? rows * columns : 0);
  }
  keep(own, MemoryCategory::gradients, kept * master_);
  own.factors = left * master_ + std::max(right * master_, 2 * widest * kDoubleBytes);
}

int64_t largest_drawn(const Program& program, BucketId id, int rank) {
  const Bucket& it = program.buckets[size_t(id)];
  const auto holder = size_t(std::lower_bound(it.holders.begin(), it.holders.end(), rank) - it.holders.begin());
  const Range slice = it.slice_of(rank);
  const bool sliced = it.holders.size() > 1 && program.optimizer_sharding == OptimizerSharding::zero3;
  int64_t largest = 0;
  for (size_t s = 0; s < it.shards.size(); ++s) {
    const ParameterShard& shard = it.shards[s];
    const bool touched = shard.offset < slice.end && shard.offset + shard.size() > slice.begin;
    const bool draws = program.private_replicas ? !sliced || touched : s % it.holders.size() == holder;
    if (draws) largest = std::max(largest, shard.size());
  }
  return largest;
}

/// Counts the drawing of initial values, shard by shard. If the rank stores only a slice of the master values, they are
/// first drawn into the whole bucket. Values that are drawn into memory other than the weights' own count as weights.
void ReplicaMemory::draw(BucketId id, Own& own) {
  const Bucket& it = bucket(id);
  const int64_t largest = largest_drawn(program(), id, sizes_.rank());
  const bool sliced = divides(own, OptimizerSharding::zero3);
  const bool keeps_part =
      divides(own, OptimizerSharding::zero1) && sizes_.all().is_narrow(it) && own.part < it.elements;
  Held whole;
  if (largest > 0 && program().private_replicas && (sliced || keeps_part))
    whole = allocate(tally_, MemoryCategory::weights, it.elements * master_);
  const bool on_the_way = program().private_replicas && (sliced || sizes_.all().is_narrow(it));
  tally_.pass(on_the_way ? MemoryCategory::weights : MemoryCategory::activations, largest * master_);
}

void ReplicaMemory::write_gradient(const Op& op, size_t position) {
  if (program().optimizer_sharding < OptimizerSharding::zero2) return;
  const int parameter = op.parameters[position];
  const Shape& shape = program().parameters[size_t(parameter)].spec.shape;
  const Box box = Layout{op.mesh, Placement::replicate(), op.option.parameters[position]}.box_of(sizes_.rank(), shape);
  const bool counts =
      !op.option.parameter_gradients[position].is_replicate() || op.mesh.tensor_index(sizes_.rank()) == 0;
  for (const ProgramSizes::Place& place : sizes_.all().places(parameter)) {
    Own& own = of(place.bucket);
    if (bucket(place.bucket).shards[size_t(place.shard)].box != box) continue;
    if (!counts || !own.contributes || !divides(own, OptimizerSharding::zero2) || own.gradient) return;
    own.gradient = allocate(tally_, MemoryCategory::gradients,
                            bucket(place.bucket).elements * gradient_bytes(bucket(place.bucket)));
    return;
  }
  check_internal(false, "each parameter shard of a layer is in a bucket");
}

int64_t ReplicaMemory::weight_bytes(const Bucket& it) const { return sizes_.all().is_narrow(it) ? compute_ : master_; }

/// The other holders prefetch at about the same time. Between processes their slices then occupy memory of this rank.
void ReplicaMemory::prefetch(BucketId id) {
  Own& own = of(id);
  if (!sizes_.all().options().messages || !divides(own, OptimizerSharding::zero3) || own.arriving) return;
  own.arriving =
      allocate(tally_, MemoryCategory::activations, (bucket(id).elements - own.part) * weight_bytes(bucket(id)));
}

void ReplicaMemory::gather(BucketId id) {
  const Bucket& it = bucket(id);
  if (!divides(of(id), OptimizerSharding::zero3)) return;
  prefetch(id);
  of(id).gathered = allocate(tally_, MemoryCategory::weights, it.elements * weight_bytes(it));
  of(id).arriving.reset();
}

/// Returns the bytes of other holders' summands in an all-reduce of the whole bucket. PowerSGD's factors are not
/// counted.
int64_t ReplicaMemory::sum_in_whole(const Bucket& it) const {
  if (program().compression.kind == Compression::Kind::powersgd) return 0;
  const int64_t element = program().compression.sends_bf16() ? kBfloat16Bytes : master_;
  return sizes_.all().summands_of_all_reduce(it.elements, element, int(it.holders.size()));
}

/// The same for a sum in which each holder adds its own slice: within its run of holders and then over the slice's
/// copies.
int64_t ReplicaMemory::sum_in_parts(const Bucket& it, const Own& own, bool last) const {
  const int64_t element = program().compression.sends_bf16() ? kBfloat16Bytes : master_;
  const int64_t divided = sizes_.all().summands(own.part * element, it.slices());
  if (!last || it.copies() == 1) return divided;
  return std::max(divided, sizes_.all().summands_of_all_reduce(own.part, element, it.copies()));
}

/// Sums run one after the other, so only the summands of one are in memory. If sums run beside backward, these summands
/// stay until the next sum begins.
void ReplicaMemory::receive_summands(int64_t bytes) {
  summands_.reset();
  if (bytes == 0) return;
  summands_ = allocate(tally_, MemoryCategory::buffers, bytes);
  if (!sizes_.all().options().sums_beside) summands_.reset();
}

void ReplicaMemory::reduce(BucketId id, bool last) {
  if (!program().private_replicas) return;
  Own& own = of(id);
  const Bucket& it = bucket(id);
  const bool sends_bf16 = program().compression.sends_bf16();
  const bool rounds = sends_bf16 && !stores_bf16(program(), it);
  if (!divides(own, OptimizerSharding::zero1)) {
    if (!last && own.alone) return;
    if (!own.contributes) own.reduced = allocate(tally_, MemoryCategory::gradients, it.elements * gradient_bytes(it));
    if (own.alone) return;
    const bool copies = program().compression.kind == Compression::Kind::bf16;
    receive_summands(sum_in_whole(it));
    tally_.pass(MemoryCategory::gradients, copies ? it.elements * kBfloat16Bytes : own.factors);
    return;
  }
  if (one_at_a_time_) travels_.clear();  // the sum before has ended
  receive_summands(sum_in_parts(it, own, last));
  if (!own.contributes && !divides(own, OptimizerSharding::zero2) && !own.reduced)
    own.reduced = allocate(tally_, MemoryCategory::gradients, own.part * master_);
  Held travels;
  const int64_t element = sends_bf16 ? kBfloat16Bytes : master_;
  if (own.contributes && rounds) {
    travels = allocate(tally_, MemoryCategory::gradients, it.elements * kBfloat16Bytes);
    own.gradient.reset();
  }
  if (!own.contributes) {  // sends zeros to the other holders, as large as the largest part
    int64_t largest = 0;
    for (int holder : {it.holders.front(), it.holders.back()}) largest = std::max(largest, it.slice_of(holder).size());
    travels = allocate(tally_, MemoryCategory::gradients, largest * element);
  }
  if (sizes_.all().options().sums_beside) {
    travels_ = {own.gradient, travels};
    travels_of_ = id;
    if (sends_bf16) travels_.push_back(allocate(tally_, MemoryCategory::gradients, own.part * kBfloat16Bytes));
  } else if (sends_bf16) {
    tally_.pass(MemoryCategory::gradients, own.part * kBfloat16Bytes);
  }
  own.gradient.reset();
}

void ReplicaMemory::update(BucketId id) {
  if (id == travels_of_) travels_.clear();
  summands_.reset();
  const Own& own = of(id);
  // The copy for the update, in the master dtype, of a sum that is stored in bfloat16.
  if (program().private_replicas && stores_bf16(program(), bucket(id)) && !divides(own, OptimizerSharding::zero2)) {
    const bool is_part = divides(own, OptimizerSharding::zero1);
    if (!is_part || own.contributes)
      tally_.pass(MemoryCategory::gradients, (is_part ? own.part : bucket(id).elements) * master_);
  }
  if (!program().keeps_gradients) of(id).reduced.reset();
}

}  // namespace trireme
