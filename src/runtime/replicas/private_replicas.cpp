#include "runtime/replicas/private_replicas.h"
#include "program/reductions.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/devices/device.h"
#include "base/memory.h"
#include "comm/group_member.h"
#include "runtime/layerwise.h"
#include "runtime/replicas/compression.h"
#include "trireme/error.h"

namespace trireme {

bool ReplicaSetting::contributes() const {
  const std::vector<int>& ranks = bucket().contributors;
  return !frozen() && std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

bool ReplicaSetting::narrow() const { return precision == Precision::bf16 && !bucket().full_precision; }

at::TensorOptions ReplicaSetting::master() const { return on_worker(master_type(precision)); }

at::TensorOptions ReplicaSetting::compute() const { return narrow() ? on_worker(at::kBFloat16) : master(); }

at::TensorOptions ReplicaSetting::gradients() const {
  return stores_bf16(program, bucket()) ? on_worker(at::kBFloat16) : master();
}

at::Tensor BucketReplica::in_master(const at::Tensor& sum) const {
  MemoryScope scope(MemoryCategory::gradients);
  return sum.defined() ? sum.to(master_type(setting_.precision)) : sum;
}

void BucketReplica::allocate_state(int64_t elements) {
  if (setting_.frozen()) return;
  MemoryScope scope(MemoryCategory::optimizer);
  state_ = make_optimizer_state(setting_.optimizer, elements, setting_.master());
}

void BucketReplica::step(int64_t begin, at::Tensor master, at::Tensor* compute, const at::Tensor& gradient,
                         double learning_rate, double scale, std::span<const double> trust) {
  const SliceUpdate work{.slice = {0, master.numel()},
                         .gradients = {&gradient, 1},
                         .gradient_scale = scale,
                         .master = &master,
                         .compute = compute,
                         .state = state_,
                         .learning_rate = learning_rate,
                         .step = ++updates_};
  update_part(setting_.optimizer, setting_.program, setting_.bucket(), begin, work, trust);
}

void BucketReplica::measure_part_of(int64_t begin, Range part, at::Tensor master, const at::Tensor& gradient,
                                    double scale, std::span<SquareSums> sums) {
  const SliceUpdate work{.slice = part,
                         .gradients = {&gradient, 1},
                         .gradient_offset = part.begin,
                         .gradient_scale = scale,
                         .master = &master,
                         .state = state_,
                         .state_offset = part.begin,
                         .step = updates_ + 1};
  measure_part(setting_.optimizer, setting_.program, setting_.bucket(), begin + part.begin, work, sums);
}

void BucketReplica::await(std::future<OperationDone>& operation) {
  const double asked = setting_.group->now();
  const OperationDone done = operation.get();
  const double blocked = std::max(0.0, done.end - asked);
  const double waited = std::clamp(done.begin + done.count.wait_seconds - asked, 0.0, blocked);
  ReplicaCounts& counts = setting_.counts;
  counts.wait_seconds += waited;
  counts.exchange_seconds += blocked - waited;
  counts.hidden_seconds += std::max(0.0, done.end - done.begin - done.count.wait_seconds - (blocked - waited));
  counts.bytes_sent += done.count.bytes_sent;
  transfers_.push_back({setting_.id, done.begin, done.end, done.count.bytes_sent});
}

void BucketReplica::clear_unwritten(const bool* written, at::Tensor& flat) const {
  const std::vector<ParameterShard>& shards = setting_.bucket().shards;
  int64_t meaningful = 0;  // end of the written part so far
  for (size_t s = 0; s < shards.size(); ++s) {
    if (!written[s]) continue;
    flat.narrow(0, meaningful, shards[s].offset - meaningful).zero_();
    meaningful = shards[s].offset + shards[s].size();
  }
  flat.narrow(0, meaningful, flat.numel() - meaningful).zero_();
}

void BucketReplica::reset(bool* written) const { std::fill_n(written, setting_.bucket().shards.size(), false); }

WeightRing::WeightRing(const ReplicaSetting& setting, Range owned) : owned_(owned) {
  MemoryScope scope(MemoryCategory::weights);
  const int64_t elements = setting.bucket().elements;
  const int versions = setting.frozen() ? 1 : setting.bucket().versions;
  for (int v = 0; v < versions; ++v) slots_.push_back(at::zeros({elements}, setting.compute()));
  if (setting.narrow()) master_ = at::zeros({owned.size()}, setting.master());
}

void WeightRing::initialize(const ReplicaSetting& setting, uint64_t seed) {
  if (!narrow()) {
    draw_initial_values(setting.program, setting.id, seed, newest());
    return;
  }
  MemoryScope scope(MemoryCategory::weights);
  at::Tensor drawn = owned_.size() == newest().numel() ? master_ : at::zeros({newest().numel()}, setting.master());
  draw_initial_values(setting.program, setting.id, seed, drawn);
  newest().copy_(drawn);
  if (!drawn.is_same(master_)) master_.copy_(drawn.narrow(0, owned_.begin, owned_.size()));
}

const at::Tensor& WeightRing::version(int64_t version) const {
  const auto length = int64_t(slots_.size());
  // Frozen weights are the same in every version.
  check_internal(
      length == 1 || (version <= newest_ && version > newest_ - length && version >= 0),
      fmt::format("version {} of the weights was requested; there are {} up to {}", version, length, newest_));
  return slots_[size_t(version % length)];
}

at::Tensor WeightRing::master() { return narrow() ? master_ : newest().narrow(0, owned_.begin, owned_.size()); }

void WeightRing::advance() {
  const at::Tensor last = newest();
  ++newest_;
  if (narrow() || last.is_same(newest())) return;
  newest().narrow(0, owned_.begin, owned_.size()).copy_(last.narrow(0, owned_.begin, owned_.size()));
}

namespace {

class PrivateReplicas final : public Replicas {
 public:
  PrivateReplicas(int rank, const Program& program, Precision precision, Communicator& world,
                  const OptimizerConfig& optimizer);

  void initialize(uint64_t seed) override {
    const c10::InferenceMode ordinary(false);
    for (const auto& replica : replicas_)
      if (replica) replica->initialize(seed);
  }
  void resume(uint64_t seed, int64_t updates) override {
    for (const auto& replica : replicas_)
      if (replica) replica->resume(seed, updates);
  }
  void restart_optimizer(int64_t) override {
    for (const auto& replica : replicas_)
      if (replica) replica->restart_optimizer();
  }
  void await_weights(BucketId, int64_t) override {}  // update() returns after the update has been made
  const at::Tensor& weights(BucketId bucket, int64_t version) override { return replica(bucket).weights(version); }
  void prefetch(BucketId bucket) override { replica(bucket).prefetch(); }
  void gather(BucketId bucket) override { replica(bucket).gather(); }
  void release(BucketId bucket) override { replica(bucket).release(); }
  at::Tensor gradient(BucketId bucket) override { return replica(bucket).gradient(); }
  void reduce(BucketId bucket, bool last) override {
    if (one_at_a_time_ && on_its_way_ >= 0) replica(on_its_way_).await_sum();
    on_its_way_ = bucket;
    replica(bucket).reduce(written_[size_t(bucket)].get(), last);
    if (last) reduced_.push_back(bucket);
  }
  void await_sums() override;
  void await_sum(BucketId bucket) override { replica(bucket).await_sum(); }
  bool sums_travel() const override {
    return std::any_of(queues_.begin(), queues_.end(),
                       [](const auto& queue) { return queue.second && queue.second->has_work(); });
  }
  std::exception_ptr failure() const override;
  double square_sum(BucketId bucket) override { return replica(bucket).square_sum(); }
  void measure(BucketId bucket, double scale, std::span<SquareSums> sums) override {
    replica(bucket).measure(scale, sums);
  }
  void update(BucketId bucket, double learning_rate, double scale, std::span<const double> trust) override {
    replica(bucket).update(learning_rate, scale, trust);
    std::erase(reduced_, bucket);
  }
  void exchange_average(BucketId bucket) override { replica(bucket).exchange_average(); }
  void settle() override {}
  std::vector<ReplicaPiece> pieces(BucketId bucket) override {
    return replicas_[size_t(bucket)] ? replicas_[size_t(bucket)]->pieces() : std::vector<ReplicaPiece>{};
  }
  std::vector<FactorPiece> factors(BucketId bucket) override {
    return replicas_[size_t(bucket)] ? replicas_[size_t(bucket)]->factors() : std::vector<FactorPiece>{};
  }
  std::vector<GradientTransfer> take_transfers() override;

 private:
  BucketReplica& replica(BucketId bucket) {
    const auto& found = replicas_[size_t(bucket)];
    check_internal(found != nullptr, fmt::format("bucket {} was requested on a worker that does not hold it", bucket));
    return *found;
  }

  /// Returns the communicator over these ranks; null for one rank.
  Communicator* group_over(Communicator& world, const std::vector<int>& ranks);
  /// Returns the communicator over these ranks that the operations of the queue over `queue` use.
  Communicator* group_beside(Communicator& world, const std::vector<int>& queue, const std::vector<int>& ranks);

  const OptimizerConfig optimizer_;
  const bool one_at_a_time_;
  BucketId on_its_way_ = -1;                                          // the bucket that was reduced last
  std::vector<BucketId> reduced_;                                     // reduced and not yet updated, in this order
  std::map<std::vector<int>, std::unique_ptr<Communicator>> groups_;  // by ranks
  // by the ranks of a queue and those of the group, which that queue's operations use
  std::map<std::pair<std::vector<int>, std::vector<int>>, std::unique_ptr<Communicator>> copies_beside_;
  std::vector<std::unique_ptr<BucketReplica>> replicas_;  // by bucket; null if this worker is not a holder
  // by ranks; destroyed first, because its operations use replicas.
  std::map<std::vector<int>, std::unique_ptr<CollectiveQueue>> queues_;
};

PrivateReplicas::PrivateReplicas(int rank, const Program& program, Precision precision, Communicator& world,
                                 const OptimizerConfig& optimizer)
    : Replicas(program),
      optimizer_(optimizer),
      one_at_a_time_(reduces_one_at_a_time(program)),
      replicas_(program.buckets.size()) {
  // Weights may be restored later outside inference mode, where tensors created in inference mode cannot be written.
  const c10::InferenceMode ordinary(false);
  for (size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = program.buckets[b];
    if (std::find(bucket.holders.begin(), bucket.holders.end(), rank) == bucket.holders.end()) continue;
    const std::vector<int> run = bucket.run_of(rank), same = bucket.copies_of(rank);
    Communicator *const group = group_over(world, run), *const copies = group_over(world, same);
    const bool divided = program.optimizer_sharding != OptimizerSharding::none && group;
    const bool beside = group && program.training && group->moves_beside_computing();
    std::unique_ptr<CollectiveQueue>& queue = queues_[run];
    if (beside && !queue) queue = std::make_unique<CollectiveQueue>(world.group(run), DeviceScope::current());
    const ReplicaSetting setting{.program = program,
                                 .id = BucketId(b),
                                 .rank = rank,
                                 .precision = precision,
                                 .group = group,
                                 .optimizer = optimizer_,
                                 .queue = beside ? queue.get() : nullptr,
                                 .counts = counts_,
                                 .copies = copies,
                                 .copies_beside = beside && copies ? group_beside(world, run, same) : nullptr};
    replicas_[b] = divided ? zero_replica(setting) : whole_replica(setting);
  }
}

Communicator* PrivateReplicas::group_over(Communicator& world, const std::vector<int>& ranks) {
  std::unique_ptr<Communicator>& group = groups_[ranks];
  if (ranks.size() > 1 && !group) group = world.group(ranks);
  return group.get();
}

Communicator* PrivateReplicas::group_beside(Communicator& world, const std::vector<int>& queue,
                                            const std::vector<int>& ranks) {
  std::unique_ptr<Communicator>& group = copies_beside_[{queue, ranks}];
  if (!group) {
    group = world.group(ranks);
    if (auto* const member = dynamic_cast<GroupMember*>(group.get())) member->work_beside();
  }
  return group.get();
}

void PrivateReplicas::await_sums() {
  for (const BucketId bucket : reduced_) replica(bucket).await_sum();
}

std::exception_ptr PrivateReplicas::failure() const {
  for (const auto& [holders, queue] : queues_)
    if (queue)
      if (const std::exception_ptr failure = queue->failure()) return failure;
  return nullptr;
}

std::vector<GradientTransfer> PrivateReplicas::take_transfers() {
  std::vector<GradientTransfer> all;
  if (queues_.empty()) return all;
  for (const auto& replica : replicas_)
    if (replica)
      for (const GradientTransfer& transfer : replica->take_transfers()) all.push_back(transfer);
  return all;
}

}  // namespace

std::unique_ptr<Replicas> private_replicas(int rank, const Program& program, Precision precision, Communicator& world,
                                           const OptimizerConfig& optimizer) {
  return std::make_unique<PrivateReplicas>(rank, program, precision, world, optimizer);
}

}  // namespace trireme
