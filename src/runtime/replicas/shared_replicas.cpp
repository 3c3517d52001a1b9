// Workers of one process share one copy of the weights. A gradient is not moved: the owner of a slice of the bucket
// reads it from all contributors, updates and writes it in one pass over memory.
#include <ATen/ATen.h>

#include <cstring>
#include <map>

#include "base/devices/device.h"
#include "base/memory.h"
#include "base/seconds.h"
#include "runtime/layerwise.h"
#include "runtime/replicas/flat_shard.h"
#include "runtime/replicas/parameter_store.h"
#include "runtime/row_set.h"
#include "trireme/error.h"

namespace trireme {
namespace {

class SharedReplicas final : public Replicas {
 public:
  SharedReplicas(int rank, const Program& program, ParameterStore& store, LocalWorld& world,
                 const OptimizerConfig& optimizer)
      : Replicas(program),
        rank_(rank),
        program_(program),
        store_(store),
        world_(world),
        optimizer_(optimizer),
        own_(program.buckets.size()) {
    MemoryScope scope(MemoryCategory::gradients);
    for (BucketId b = 0; b < BucketId(program.buckets.size()); ++b) {
      const auto& contributors = bucket(b).contributors;
      auto it = std::find(contributors.begin(), contributors.end(), rank);
      if (!program.training || it == contributors.end()) continue;
      own(b).gradient = at::zeros({bucket(b).elements}, store.bucket(b).master[0].options());
      store.bucket(b).gradients[size_t(it - contributors.begin())] = own(b).gradient;
    }
    store.attach(rank, this);
  }
  ~SharedReplicas() override { store_.attach(rank_, nullptr); }

  void initialize(uint64_t seed) override {
    for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b) {
      const auto& holders = bucket(b).holders;
      std::vector<int> mine;
      for (size_t s = 0; s < bucket(b).shards.size(); ++s)
        if (holders[s % holders.size()] == rank_) mine.push_back(int(s));
      if (mine.empty()) continue;
      BucketStore& shared = store_.bucket(b);
      draw_initial_values(program_, b, seed, shared.master[0], mine);
      if (shared.compute[0].is_same(shared.master[0])) continue;
      for (int s : mine) {
        const ParameterShard& shard = bucket(b).shards[size_t(s)];
        view_of_shard(shared.compute[0], shard).copy_(view_of_shard(shared.master[0], shard));
      }
    }
  }

  void resume(uint64_t, int64_t updates) override {
    earlier_updates_ = updates;
    if (updates == 0) return;
    for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b)
      if (!bucket(b).contributors.empty() && !bucket(b).slice_of(rank_).empty()) optimizer_state(b);
  }

  void restart_optimizer(int64_t updates) override {
    earlier_updates_ = -updates;
    for (Own& mine : own_) reset_optimizer_state(optimizer_, mine.state);
  }

  void await_weights(BucketId b, int64_t version) override {
    if (bucket(b).contributors.empty()) return;
    counts_.wait_seconds += world_.wait_for(store_.bucket(b).done, holders(b) * version);
  }

  const at::Tensor& weights(BucketId b, int64_t version) override {
    return store_.bucket(b).compute[size_t(version % bucket(b).versions)];
  }

  at::Tensor gradient(BucketId b) override {
    Own& mine = own(b);
    if (!mine.gradient.defined() || mine.open) return mine.gradient;
    counts_.wait_seconds += world_.wait_for(store_.bucket(b).done, holders(b) * mine.reduced);
    std::fill_n(written_[size_t(b)].get(), bucket(b).shards.size(), false);
    mine.open = true;
    return mine.gradient;
  }

  void reduce(BucketId b, bool) override {
    Own& mine = own(b);
    if (gradient(b).defined())
      for (size_t s = 0; s < bucket(b).shards.size(); ++s)
        if (!written(b, int(s)) && !mine.tables.contains(int(s)))
          view_of_shard(mine.gradient, bucket(b).shards[s]).zero_();
    mine.open = false;
    ++mine.reduced;
    world_.advance(store_.bucket(b).ready);
  }

  bool track_rows(BucketId b, int shard, int64_t rows) override {
    const bool alone = holders(b) == 1 && bucket(b).contributors == bucket(b).holders && bucket(b).versions == 1;
    const bool in_place = store_.bucket(b).compute[0].is_same(store_.bucket(b).master[0]) && !program_.keeps_gradients;
    if (!alone || !in_place || !skips_zero_gradients(optimizer_)) return false;
    if (!on_host(store_.bucket(b).master[0])) return false;  // the host skips rows; a device updates all at once
    own(b).tables.try_emplace(shard, rows);
    return true;
  }

  void touch_rows(BucketId b, int shard, const at::Tensor& rows) override { own(b).tables.at(shard).add(rows); }

  double square_sum(BucketId b) override {
    await_gradients(b);
    const Range slice = bucket(b).slice_of(rank_);
    if (slice.empty()) return 0;
    at::Tensor sum = store_.bucket(b).reduced.narrow(0, slice.begin, slice.size());
    sum_gradients(store_.bucket(b).gradients, slice, sum);
    return sum_of_squares(sum);
  }

  void measure(BucketId b, double scale, std::span<SquareSums> sums) override {
    check_internal(program_.keeps_gradients, "layer-wise optimizers measure the gradient that has been summed");
    SliceUpdate work = work_on(b, own(b).version + 1, scale);
    work.master = &master(b, own(b).version);
    measure_part(optimizer_, program_, bucket(b), work.slice.begin, work, sums);
  }

  void update(BucketId b, double learning_rate, double scale, std::span<const double> trust) override {
    await_gradients(b);
    const double begin = steady_seconds();
    BucketStore& shared = store_.bucket(b);
    const int64_t version = ++own(b).version;
    SliceUpdate work = work_on(b, version, scale);
    at::Tensor& newest = master(b, version);
    if (shared.master.size() > 1)
      newest.narrow(0, work.slice.begin, work.slice.size())
          .copy_(master(b, version - 1).narrow(0, work.slice.begin, work.slice.size()));
    at::Tensor& compute = shared.compute[slot(b, version)];
    work.master = &newest;
    work.compute = compute.is_same(newest) ? nullptr : &compute;
    work.learning_rate = learning_rate;
    if (own(b).tables.empty()) update_part(optimizer_, program_, bucket(b), work.slice.begin, work, trust);
    else update_touched(b, work);
    world_.advance(shared.done);
    count(b, work, steady_seconds() - begin);
  }

  void note_replayed(BucketId b) override {
    ++own(b).reduced;
    ++own(b).version;
    world_.advance(store_.bucket(b).ready);
    world_.advance(store_.bucket(b).done);
  }

  void settle() override {
    for (BucketId b = 0; b < BucketId(program_.buckets.size()); ++b)
      if (std::binary_search(bucket(b).holders.begin(), bucket(b).holders.end(), rank_))
        await_weights(b, own(b).version);
  }

  void exchange_average(BucketId b) override {
    Own& mine = own(b);
    const Range slice = bucket(b).slice_of(rank_);
    if (optimizer_.ema == 0 || mine.state.empty() || slice.empty()) return;
    at::Tensor weights = master(b, mine.version).narrow(0, slice.begin, slice.size());
    exchange_values(weights, mine.state.back());
    at::Tensor& compute = store_.bucket(b).compute[slot(b, mine.version)];
    if (!compute.is_same(master(b, mine.version))) compute.narrow(0, slice.begin, slice.size()).copy_(weights);
  }

  std::vector<ReplicaPiece> pieces(BucketId b) override {
    BucketStore& shared = store_.bucket(b);
    const Own& mine = own(b);
    std::vector<ReplicaPiece> pieces{
        {{0, bucket(b).elements}, master(b, mine.version), shared.compute[slot(b, mine.version)], shared.reduced, {}}};
    const Range slice = bucket(b).slice_of(rank_);
    if (!mine.state.empty() && !slice.empty())
      pieces.push_back({slice, {}, {}, {}, optimizer_.ema > 0 ? mine.state.back() : at::Tensor(), mine.state});
    return pieces;
  }

 private:
  /// This worker's part of a bucket.
  struct Own {
    at::Tensor gradient;
    bool open = false;    // between the first gradient() of a batch and its reduce()
    int64_t reduced = 0;  // batches
    int64_t version = 0;  // updates
    std::vector<at::Tensor> state;
    std::map<int, RowSet> tables;  // by tracked shard: rows that have a gradient
  };

  const Bucket& bucket(BucketId b) const { return program_.buckets[size_t(b)]; }
  Own& own(BucketId b) { return own_[size_t(b)]; }
  int64_t holders(BucketId b) const { return int64_t(bucket(b).holders.size()); }
  size_t slot(BucketId b, int64_t version) const { return size_t(version % bucket(b).versions); }
  at::Tensor& master(BucketId b, int64_t version) {
    std::vector<at::Tensor>& slots = store_.bucket(b).master;
    return slots[slots.size() == 1 ? 0 : slot(b, version)];
  }

  /// Returns the arguments of the update that creates `version`, except for the weights and the learning rate.
  SliceUpdate work_on(BucketId b, int64_t version, double scale) {
    BucketStore& shared = store_.bucket(b);
    SliceUpdate work;
    work.slice = bucket(b).slice_of(rank_);
    work.gradients = program_.keeps_gradients ? std::span<const at::Tensor>(&shared.reduced, 1)
                                              : std::span<const at::Tensor>(shared.gradients);
    work.gradient_offset = work.slice.begin;
    work.gradient_scale = scale;
    work.state = optimizer_state(b);
    work.step = earlier_updates_ + version;
    work.recorded = rates_;
    return work;
  }

  /// Updates everything except the rows of tracked tables that have no gradient. Then zeroes the gradient of the rows
  /// that had one.
  void update_touched(BucketId b, const SliceUpdate& whole) {
    const auto update = [&](int64_t begin, int64_t end) {
      SliceUpdate part = whole;
      part.slice = {begin, end};
      part.gradient_offset = begin;
      update_slice(optimizer_, part);
    };
    auto* gradient = static_cast<char*>(own(b).gradient.data_ptr());
    const int64_t element = own(b).gradient.element_size();
    int64_t done = 0;
    for (auto& [shard, touched] : own(b).tables) {
      const ParameterShard& table = bucket(b).shards[size_t(shard)];
      const int64_t width = table.size() / touched.table_rows();
      update(done, table.offset);
      for (int64_t row : touched.rows()) {
        const int64_t begin = table.offset + row * width;
        update(begin, begin + width);
        std::memset(gradient + begin * element, 0, size_t(width * element));
      }
      touched.clear();
      done = table.offset + table.size();
    }
    update(done, bucket(b).elements);
  }

  void await_gradients(BucketId b) {
    counts_.wait_seconds += world_.wait_for(store_.bucket(b).ready, holders(b) * (own(b).version + 1));
  }

  std::vector<at::Tensor>& optimizer_state(BucketId b) {
    auto& tensors = own(b).state;
    if (!tensors.empty()) return tensors;
    MemoryScope scope(MemoryCategory::optimizer);
    tensors = make_optimizer_state(optimizer_, bucket(b).slice_of(rank_).size(), store_.bucket(b).master[0].options());
    return tensors;
  }

  void count(BucketId b, const SliceUpdate& work, double seconds) {
    if (holders(b) == 1) return;
    // Estimates the share of the pass's memory traffic that reads other workers' gradients. Every state and the weights
    // are read and written.
    const double remote = double(work.gradients.size()) - 1, own = 1 + 2 + 2 * double(work.state.size());
    counts_.hidden_seconds += seconds * remote / (remote + own);
    // By formula: a reduce-scatter of gradients and an all-gather of weights; each sends (n-1)/n of the bucket.
    const BucketStore& shared = store_.bucket(b);
    const int64_t gradient_bytes = bucket(b).elements * shared.gradients[0].element_size();
    const int64_t weight_bytes = bucket(b).elements * shared.compute[0].element_size();
    const auto contributors = int64_t(bucket(b).contributors.size());
    counts_.bytes_sent +=
        gradient_bytes * (contributors - 1) / contributors + weight_bytes * (holders(b) - 1) / holders(b);
  }

  const int rank_;
  const Program& program_;
  ParameterStore& store_;
  LocalWorld& world_;
  const OptimizerConfig optimizer_;
  std::vector<Own> own_;         // by bucket
  int64_t earlier_updates_ = 0;  // updates by the workers that this one replaces
};

}  // namespace

std::unique_ptr<Replicas> shared_replicas(int rank, const Program& program, ParameterStore& store, LocalWorld& world,
                                          const OptimizerConfig& optimizer) {
  return std::make_unique<SharedReplicas>(rank, program, store, world, optimizer);
}

}  // namespace trireme
