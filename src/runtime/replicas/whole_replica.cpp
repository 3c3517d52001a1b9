// Plain data parallelism. Every holder has everything and makes the same update, bit for bit, because reductions add in
// rank order.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <utility>

#include "base/memory.h"
#include "runtime/replicas/compression.h"
#include "runtime/replicas/private_replicas.h"
#include "trireme/error.h"

namespace trireme {
namespace {

class WholeReplica final : public BucketReplica {
 public:
  explicit WholeReplica(const ReplicaSetting& setting);

  void initialize(uint64_t seed) override;
  void resume(uint64_t seed, int64_t updates) override;
  const at::Tensor& weights(int64_t version) override { return weights_.version(version); }
  at::Tensor gradient() override;
  void reduce(bool* written, bool last) override;
  void await_sum() override;
  double square_sum() override;
  void measure(double scale, std::span<SquareSums> sums) override;
  void update(double learning_rate, double scale, std::span<const double> trust) override;
  void exchange_average() override;
  std::vector<ReplicaPiece> pieces() override;
  std::vector<FactorPiece> factors() override { return factors_ ? factors_->pieces() : std::vector<FactorPiece>{}; }

 private:
  void sum(Communicator& group);

  WeightRing weights_;
  at::Tensor flat_;       ///< this worker's summand, after reduce() the sum; undefined where it has none
  at::Tensor reduced_;    ///< `flat_`, or memory for the sum alone; undefined before the first reduce()
  bool pending_ = false;  ///< reduced, not yet used by an update
  std::optional<PowerSgd> factors_;
  /// Valid from reduce() until the sum is used, if it is computed while the worker computes.
  std::future<OperationDone> summing_;
};

WholeReplica::WholeReplica(const ReplicaSetting& setting)
    : BucketReplica(setting), weights_(setting, {0, setting.bucket().elements}) {
  allocate_state(setting.bucket().elements);
  if (setting.frozen()) return;
  MemoryScope scope(MemoryCategory::gradients);
  if (setting.contributes()) flat_ = at::zeros({setting.bucket().elements}, setting.gradients());
  const Compression& compression = setting.program.compression;
  if (setting.group && compression.kind == Compression::Kind::powersgd)
    factors_.emplace(setting.bucket(), compression.rank, setting.contributes(), master_type(setting.precision));
}

void WholeReplica::initialize(uint64_t seed) {
  weights_.initialize(setting_, seed);
  if (factors_) factors_->initialize(seed);
}

void WholeReplica::resume(uint64_t seed, int64_t updates) {
  BucketReplica::resume(seed, updates);
  if (factors_) factors_->initialize(seed, updates);
}

at::Tensor WholeReplica::gradient() {
  check_internal(!pending_, "a reduced gradient is used by an update before the next batch writes to its memory");
  return flat_;
}

void WholeReplica::sum(Communicator& group) {
  if (factors_) factors_->all_reduce(reduced_, group);
  else if (setting_.program.compression.kind == Compression::Kind::bf16) all_reduce_as_bfloat16(reduced_, group);
  else group.all_reduce(reduced_);
}

void WholeReplica::await_sum() {
  if (summing_.valid()) await(summing_);
}

void WholeReplica::reduce(bool* written, bool last) {
  check_internal(!setting_.frozen() && !pending_, "a bucket is reduced once before each update, frozen ones never");
  // A single holder continues to add in place. Several holders reduce once per batch.
  if (!last && !setting_.group) return;
  check_internal(last, "whole gradients are reduced once per batch");
  MemoryScope scope(MemoryCategory::gradients);
  if (flat_.defined()) clear_unwritten(written, flat_);
  reset(written);
  reduced_ = flat_.defined() ? flat_ : at::zeros({setting_.bucket().elements}, setting_.gradients());
  pending_ = true;
  if (setting_.queue)
    summing_ = setting_.queue->start([this](Communicator& group) {
      const c10::InferenceMode inference;
      const MemoryScope gradients(MemoryCategory::gradients);
      sum(group);
    });
  else if (setting_.group) sum(*setting_.group);
}

double WholeReplica::square_sum() {
  check_internal(pending_, "the norm is taken of a reduced gradient");
  await_sum();
  const Range part = setting_.bucket().slice_of(setting_.rank);
  return sum_of_squares(in_master(reduced_.narrow(0, part.begin, part.size())));
}

void WholeReplica::measure(double scale, std::span<SquareSums> sums) {
  check_internal(pending_, "norms are taken of a reduced gradient");
  await_sum();
  const Range part = setting_.bucket().slice_of(setting_.rank);
  const at::Tensor sum = in_master(reduced_);
  measure_part_of(0, part, weights_.master(), sum, scale, sums);
  if (!setting_.optimizer.kind->measure_takes_gradient) return;
  std::vector<SquareSums> uncounted(
      sums.size());  // other holders count them; this one updates its own copy of the moments
  measure_part_of(0, {0, part.begin}, weights_.master(), sum, scale, uncounted);
  measure_part_of(0, {part.end, setting_.bucket().elements}, weights_.master(), sum, scale, uncounted);
}

void WholeReplica::update(double learning_rate, double scale, std::span<const double> trust) {
  check_internal(pending_, "an update uses a reduced gradient");
  await_sum();
  weights_.advance();
  step(0, weights_.master(), weights_.narrow() ? &weights_.newest() : nullptr, in_master(reduced_), learning_rate,
       scale, trust);
  pending_ = false;
  if (!flat_.defined() && !setting_.program.keeps_gradients) reduced_.reset();
}

void WholeReplica::exchange_average() {
  if (!has_average()) return;
  at::Tensor master = weights_.master();
  exchange_values(master, state_.back());
  if (weights_.narrow()) weights_.newest().copy_(master);
}

std::vector<ReplicaPiece> WholeReplica::pieces() {
  const at::Tensor reduced = setting_.program.keeps_gradients ? in_master(reduced_) : at::Tensor();
  const at::Tensor compute = weights_.newest();
  return {{{0, setting_.bucket().elements},
           weights_.narrow() ? weights_.master() : compute,
           compute,
           reduced,
           has_average() ? state_.back() : at::Tensor(),
           state_}};
}

}  // namespace

std::unique_ptr<BucketReplica> whole_replica(const ReplicaSetting& setting) {
  return std::make_unique<WholeReplica>(setting);
}

}  // namespace trireme
