// ZeRO (Rajbhandari, Rasley, Ruwase, He: "ZeRO: memory optimizations toward training trillion parameter models", SC
// 2020): the holders of a bucket divide its optimizer state (zero1), also its gradient (zero2), also its weights
// (zero3). Bytes per device for P float32 parameters, n holders and K state tensors per element:
//
// | level | weights | gradients | optimizer | temporarily                                                          |
// |-------|---------|-----------|-----------|----------------------------------------------------------------------|
// | zero1 | 4 P     | 4 P       | 4 K P / n |                                                                      |
// | zero2 | 4 P     | 4 P / n   | 4 K P / n | gradients of buckets from their first layer's backward to reduce()   |
// | zero3 | 4 P / n | 4 P / n   | 4 K P / n | the same, and weights of buckets from gather to release              |
//
// If several runs of holders hold copies (Bucket::dividers), n is the number of holders of a run. Gradients are summed
// within each run. After the batch's last micro-batch, these sums are summed over the holders of the same slice.
//
// If bytes move while a worker computes (Communicator::moves_beside_computing), a bucket is reduced while backward
// continues. If that needs extra memory (reduces_one_at_a_time: zero2, zero3, and sums in bfloat16), only one bucket is
// reduced at a time.
//
// Under bf16 the float32 master values are divided at every level; in the table the bfloat16 copy takes the place of
// the weights. With gradients stored in bfloat16 (Compression), whole gradients take half the bytes.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/memory.h"
#include "runtime/replicas/compression.h"
#include "runtime/replicas/private_replicas.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// zero3: this worker's slice of the weights and, between gather and release, the whole weights of the bucket.
///
/// A slice is sent without a copy: on backends that share memory the receivers read it in place. No worker may write to
/// it before the last receiver has read it. Only an update writes. This is safe for these reasons:
/// - The update comes after the batch's last reduce_scatter of this bucket, in which every holder that reads the slice
///   takes part, contributor or not.
/// - That reduce_scatter comes after all gathers of the batch: a gradient is complete only after the last backward, and
///   gathers for an evaluation come before the training step.
/// - A gather returns only when it has read everything, and a reduce_scatter ends on a worker with a slice only when
///   all holders have begun it.
///
/// ZeroReplica refuses to gather between that reduce_scatter and the update. Frozen buckets are never written.
///
/// Messages are distinguished only by their order: all holders of a bucket must gather it equally often.
class SlicedWeights {
 public:
  SlicedWeights(const ReplicaSetting& setting, std::vector<Range> parts, size_t mine);

  void initialize(const ReplicaSetting& setting, uint64_t seed);
  void prefetch(Communicator& group);
  void gather(Communicator& group);
  void release() { full_.reset(); }

  const at::Tensor& full() const {
    check_internal(full_.defined(), "divided weights are read between gather and release");
    return full_;
  }
  bool at_rest() const { return !full_.defined() && !on_its_way_; }
  at::Tensor& master() { return master_; }
  at::Tensor& compute() { return compute_; }
  bool narrow() const { return !compute_.is_same(master_); }

 private:
  const std::vector<Range> parts_;  // by rank of the group
  const size_t mine_;
  const int64_t tag_;
  at::Tensor master_, compute_;  // this worker's slice; one tensor in one dtype
  at::Tensor full_;              // in the compute dtype
  bool on_its_way_ = false;      // already sent for the next gather
};

SlicedWeights::SlicedWeights(const ReplicaSetting& setting, std::vector<Range> parts, size_t mine)
    : parts_(std::move(parts)), mine_(mine), tag_(setting.id) {
  MemoryScope scope(MemoryCategory::weights);
  master_ = at::zeros({parts_[mine].size()}, setting.master());
  compute_ = setting.narrow() ? at::zeros({parts_[mine].size()}, setting.compute()) : master_;
}

void SlicedWeights::initialize(const ReplicaSetting& setting, uint64_t seed) {
  MemoryScope scope(MemoryCategory::weights);
  const Range own = parts_[mine_];
  const std::vector<ParameterShard>& shards = setting.bucket().shards;
  std::vector<int> touched;
  for (size_t s = 0; s < shards.size(); ++s)
    if (shards[s].offset < own.end && shards[s].offset + shards[s].size() > own.begin) touched.push_back(int(s));
  if (touched.empty()) return;  // an empty list would mean all
  at::Tensor drawn = at::zeros({setting.bucket().elements}, setting.master());
  draw_initial_values(setting.program, setting.id, seed, drawn, touched);
  master_.copy_(drawn.narrow(0, own.begin, own.size()));
  if (narrow()) compute_.copy_(master_);
}

void SlicedWeights::prefetch(Communicator& group) {
  if (std::exchange(on_its_way_, true) || compute_.numel() == 0) return;
  for (size_t q = 0; q < parts_.size(); ++q)
    if (q != mine_) group.send(compute_, int(q), tag_);
}

void SlicedWeights::gather(Communicator& group) {
  check_internal(!full_.defined(), "gathered weights are released before they are gathered again");
  prefetch(group);
  on_its_way_ = false;
  MemoryScope scope(MemoryCategory::weights);
  full_ = at::empty({parts_.back().end}, compute_.options());
  for (size_t q = 0; q < parts_.size(); ++q) {
    if (parts_[q].empty()) continue;
    const at::Tensor slice = q == mine_ ? compute_ : group.receive_shared(int(q), tag_);
    full_.narrow(0, parts_[q].begin, parts_[q].size()).copy_(slice);
  }
}

class ZeroReplica final : public BucketReplica {
 public:
  explicit ZeroReplica(const ReplicaSetting& setting);

  void initialize(uint64_t seed) override;
  const at::Tensor& weights(int64_t version) override;
  void prefetch() override;
  void gather() override;
  void release() override;
  at::Tensor gradient() override;
  void reduce(bool* written, bool last) override;
  void await_sum() override;
  double square_sum() override;
  void measure(double scale, std::span<SquareSums> sums) override;
  void update(double learning_rate, double scale, std::span<const double> trust) override;
  void exchange_average() override;
  std::vector<ReplicaPiece> pieces() override;

 private:
  at::Tensor own_part(const at::Tensor& whole) const { return whole.narrow(0, own().begin, own().size()); }
  Range own() const { return parts_[mine_]; }
  bool divides_gradients() const { return level_ != OptimizerSharding::zero1; }
  at::Tensor take_contribution(bool* written);
  void reduce_scatter(Communicator& group, const at::Tensor& contribution, bool adds);
  void sum_copies(Communicator& copies);
  bool is_first_copy() const { return setting_.rank == setting_.bucket().copies_of(setting_.rank).front(); }
  void gather_updated();

  const OptimizerSharding level_;
  const bool rounds_;         // summands are sent in bfloat16
  std::vector<Range> parts_;  // by rank of the group
  size_t mine_ = 0;
  int64_t largest_ = 0;                  // elements of a part
  std::optional<WeightRing> whole_;      // zero1, zero2
  std::optional<SlicedWeights> sliced_;  // zero3
  at::Tensor flat_;       // this worker's summand. zero1: permanent; zero2, zero3: from gradient() to reduce()
  at::Tensor reduced_;    // own part of the sum; zero1: lies in `flat_` if `flat_` is defined
  bool begun_ = false;    // `reduced_` holds earlier micro-batches of this batch
  bool pending_ = false;  // reduced, not yet used by an update
  /// While the sum is computed beside the worker's work: the operation, and the summand that it reads.
  std::future<OperationDone> summing_;
  at::Tensor travels_;
  int64_t sent_to_copies_ = 0;  // by that operation, bytes, which the queue does not count
};

ZeroReplica::ZeroReplica(const ReplicaSetting& setting)
    : BucketReplica(setting),
      level_(setting.program.optimizer_sharding),
      rounds_(setting.program.compression.sends_bf16()) {
  const Bucket& bucket = setting.bucket();
  check_internal(setting.program.compression.kind != Compression::Kind::powersgd,
                 "PowerSGD comes with whole gradients only");
  check_internal(bucket.versions == 1 || setting.frozen() || !divides_gradients(),
                 "several versions of the weights come with zero1 at most");
  for (int holder : bucket.run_of(setting.rank)) {
    if (holder == setting.rank) mine_ = parts_.size();
    parts_.push_back(bucket.slice_of(holder));
    largest_ = std::max(largest_, parts_.back().size());
  }
  if (level_ == OptimizerSharding::zero3) sliced_.emplace(setting, parts_, mine_);
  else whole_.emplace(setting, own());
  allocate_state(own().size());
  if (setting.frozen()) return;
  MemoryScope scope(MemoryCategory::gradients);
  if (divides_gradients()) {
    reduced_ = at::zeros({own().size()}, setting.master());
  } else if (setting.contributes()) {
    flat_ = at::zeros({bucket.elements}, setting.gradients());
    reduced_ = own_part(flat_);
  }
}

void ZeroReplica::initialize(uint64_t seed) {
  if (sliced_) sliced_->initialize(setting_, seed);
  else whole_->initialize(setting_, seed);
}

const at::Tensor& ZeroReplica::weights(int64_t version) { return sliced_ ? sliced_->full() : whole_->version(version); }

constexpr auto kOutOfTurn = "divided weights are not gathered between a batch's last reduction and its update";

void ZeroReplica::prefetch() {
  check_internal(!pending_ || !sliced_, kOutOfTurn);
  if (sliced_) sliced_->prefetch(*setting_.group);
}

void ZeroReplica::gather() {
  check_internal(!pending_ || !sliced_, kOutOfTurn);
  if (sliced_) sliced_->gather(*setting_.group);
}

void ZeroReplica::release() {
  if (sliced_) sliced_->release();
}

at::Tensor ZeroReplica::gradient() {
  if (!setting_.contributes()) return {};
  check_internal(divides_gradients() || !pending_,
                 "a reduced gradient is used by an update before the next batch writes to its memory");
  if (!flat_.defined()) {
    MemoryScope scope(MemoryCategory::gradients);
    flat_ = at::empty({setting_.bucket().elements}, setting_.gradients());
  }
  return flat_;
}

/// Returns this worker's summand, complete and in the dtype that is sent; undefined if it has none.
at::Tensor ZeroReplica::take_contribution(bool* written) {
  at::Tensor taken = flat_;
  if (divides_gradients()) flat_.reset();
  if (taken.defined()) {
    clear_unwritten(written, taken);
    if (rounds_) taken = taken.to(at::kBFloat16);
  }
  reset(written);
  return taken;
}

/// `reduced_` = this worker's part of the sum of the holders' contributions; if `adds`, the old `reduced_` is added to
/// it.
void ZeroReplica::reduce_scatter(Communicator& group, const at::Tensor& contribution, bool adds) {
  at::Tensor& sum = reduced_;
  const at::TensorOptions options = rounds_ ? sum.options().dtype(at::kBFloat16) : sum.options();
  // A worker without a summand contributes zeros.
  const at::Tensor zeros = contribution.defined() ? at::Tensor() : at::zeros({largest_}, options);
  std::vector<at::Tensor> inputs;
  for (const Range& part : parts_)
    inputs.push_back(contribution.defined() ? contribution.narrow(0, part.begin, part.size())
                                            : zeros.narrow(0, 0, part.size()));
  if (rounds_) {
    at::Tensor rounded = at::empty({own().size()}, options);
    group.reduce_scatter(inputs, rounded);
    if (adds) sum.add_(rounded);
    else sum.copy_(rounded);
    return;
  }
  // This worker's sum of earlier micro-batches is added together with its own summand.
  if (adds && contribution.defined()) inputs[mine_].add_(sum);
  if (adds && !contribution.defined()) inputs[mine_] = sum;
  group.reduce_scatter(inputs, sum);
}

/// Replaces `reduced_` by its sum over the holders of the same slice.
void ZeroReplica::sum_copies(Communicator& copies) {
  if (rounds_) all_reduce_as_bfloat16(reduced_, copies);
  else copies.all_reduce(reduced_);
}

void ZeroReplica::reduce(bool* written, bool last) {
  check_internal(!setting_.frozen() && !pending_, "a bucket is not reduced again before its update, frozen ones never");
  check_internal(last || divides_gradients(), "whole gradients are reduced once per batch");
  await_sum();  // of an earlier micro-batch
  MemoryScope scope(MemoryCategory::gradients);
  travels_ = take_contribution(written);
  if (!reduced_.defined()) reduced_ = at::empty({own().size()}, setting_.master());
  const bool adds = std::exchange(begun_, !last);
  pending_ = last;
  if (!setting_.queue) {
    reduce_scatter(*setting_.group, travels_, adds);
    if (last && setting_.copies) sum_copies(*setting_.copies);
    travels_.reset();
    return;
  }
  summing_ = setting_.queue->start([this, adds, last](Communicator& group) {
    const c10::InferenceMode inference;
    const MemoryScope gradients(MemoryCategory::gradients);
    reduce_scatter(group, travels_, adds);
    if (!last || !setting_.copies_beside) return;
    const int64_t before = setting_.copies_beside->count().bytes_sent;
    sum_copies(*setting_.copies_beside);
    sent_to_copies_ = setting_.copies_beside->count().bytes_sent - before;
  });
}

void ZeroReplica::await_sum() {
  if (!summing_.valid()) return;
  await(summing_);
  travels_.reset();
  const int64_t sent = std::exchange(sent_to_copies_, 0);
  setting_.counts.bytes_sent += sent;
  transfers_.back().bytes += sent;
}

double ZeroReplica::square_sum() {
  check_internal(pending_, "the norm is taken of a reduced gradient");
  await_sum();
  return is_first_copy() ? sum_of_squares(in_master(reduced_)) : 0;
}

void ZeroReplica::measure(double scale, std::span<SquareSums> sums) {
  check_internal(pending_, "norms are taken of a reduced gradient");
  await_sum();
  std::vector<SquareSums> uncounted(is_first_copy() ? 0 : sums.size());  // measuring may update the moments
  measure_part_of(own().begin, {0, own().size()}, sliced_ ? sliced_->master() : whole_->master(), in_master(reduced_),
                  scale, is_first_copy() ? sums : std::span(uncounted));
}

void ZeroReplica::gather_updated() {
  const double waited = setting_.group->count().wait_seconds;
  const double start = setting_.group->now();
  std::vector<at::Tensor> outputs;
  for (const Range& part : parts_) outputs.push_back(whole_->newest().narrow(0, part.begin, part.size()));
  setting_.group->all_gather(outputs[mine_], outputs);
  const double seconds = setting_.group->now() - start;
  setting_.counts.exchange_seconds += seconds - (setting_.group->count().wait_seconds - waited);
}

void ZeroReplica::update(double learning_rate, double scale, std::span<const double> trust) {
  check_internal(pending_, "an update uses a reduced gradient");
  check_internal(!sliced_ || sliced_->at_rest(), "divided weights are released before they are updated");
  await_sum();
  pending_ = false;
  if (sliced_) {
    step(own().begin, sliced_->master(), sliced_->narrow() ? &sliced_->compute() : nullptr, reduced_, learning_rate,
         scale, trust);
    return;
  }
  whole_->advance();
  at::Tensor compute = own_part(whole_->newest());
  step(own().begin, whole_->master(), whole_->narrow() ? &compute : nullptr, in_master(reduced_), learning_rate, scale,
       trust);
  gather_updated();
  const bool lies_apart = !divides_gradients() && !flat_.defined();
  if (lies_apart && !setting_.program.keeps_gradients) reduced_.reset();
}

void ZeroReplica::exchange_average() {
  if (!has_average()) return;
  check_internal(!sliced_ || sliced_->at_rest(), "divided weights are released before they are exchanged");
  at::Tensor master = sliced_ ? sliced_->master() : whole_->master();
  exchange_values(master, state_.back());
  if (sliced_) {
    if (sliced_->narrow()) sliced_->compute().copy_(master);
    return;
  }
  if (whole_->narrow()) own_part(whole_->newest()).copy_(master);
  gather_updated();
}

std::vector<ReplicaPiece> ZeroReplica::pieces() {
  const at::Tensor reduced = setting_.program.keeps_gradients ? in_master(reduced_) : at::Tensor();
  const at::Tensor average = has_average() ? state_.back() : at::Tensor();
  if (sliced_) return {{own(), sliced_->master(), sliced_->compute(), reduced, average, state_}};
  const at::Tensor& weights = whole_->newest();
  std::vector<ReplicaPiece> pieces;
  for (const Range& range : {Range{0, own().begin}, own(), Range{own().end, weights.numel()}}) {
    if (range.empty()) continue;
    const at::Tensor compute = weights.narrow(0, range.begin, range.size());
    const bool mine = range == own();
    const at::Tensor master = !whole_->narrow() ? compute : mine ? whole_->master() : at::Tensor();
    if (mine) pieces.push_back({range, master, compute, reduced, average, state_});
    else pieces.push_back({range, master, compute, {}, {}});
  }
  return pieces;
}

}  // namespace

std::unique_ptr<BucketReplica> zero_replica(const ReplicaSetting& setting) {
  return std::make_unique<ZeroReplica>(setting);
}

}  // namespace trireme
