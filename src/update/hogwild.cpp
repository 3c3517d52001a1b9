#include "update/hogwild.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <type_traits>
#include <variant>

#include "base/mutex.h"
#include "update/codec.h"
#include "update/registry.h"
#include "update/statistics.h"

namespace trireme {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// Unlike ==, 0 and -0 differ, and a NaN equals itself.
template <class T>
bool same_bits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

/// Returns the new value of an element whose current value is `seen`.
template <class T>
T moved(T seen, T mine, T before) {
  if (same_bits(mine, before)) return seen;
  if (same_bits(seen, before)) return mine;  // no other thread changed it; before + (mine - before) might be rounded
  return seen + (mine - before);
}

/// The elements of one word.
template <class T>
using Lanes = std::array<T, sizeof(uint64_t) / sizeof(T)>;

template <class T>
uint64_t word_at(const T* elements) {
  uint64_t word;
  std::memcpy(&word, elements, sizeof word);
  return word;
}

template <class T>
void add_word(std::atomic<uint64_t>& word, const T* mine, const T* before) {
  const uint64_t all_mine = word_at(mine);
  uint64_t seen = word_at(before);
  if (all_mine == seen) return;
  for (uint64_t wanted = all_mine; !word.compare_exchange_weak(seen, wanted, kRelaxed);) {
    auto lanes = std::bit_cast<Lanes<T>>(seen);
    for (size_t lane = 0; lane < lanes.size(); ++lane) lanes[lane] = moved(lanes[lane], mine[lane], before[lane]);
    wanted = std::bit_cast<uint64_t>(lanes);
  }
}

template <class T>
void add_lane(std::atomic<uint64_t>& word, size_t lane, T mine, T before) {
  if (same_bits(mine, before)) return;
  for (uint64_t seen = word.load(kRelaxed);;) {
    auto lanes = std::bit_cast<Lanes<T>>(seen);
    lanes[lane] = moved(lanes[lane], mine, before);
    if (word.compare_exchange_weak(seen, std::bit_cast<uint64_t>(lanes), kRelaxed)) return;
  }
}

/// One bucket of the shared weights.
using SharedBucket = std::variant<LockFree<float>, LockFree<double>>;

SharedBucket shared_copy(const at::Tensor& weights) {
  if (weights.scalar_type() == at::kDouble) return LockFree<double>(weights.data_ptr<double>(), weights.numel());
  return LockFree<float>(weights.data_ptr<float>(), weights.numel());
}

/// Memory that all replicas share.
struct Shared {
  std::once_flag made;
  std::optional<PolicyState> saved;   ///< the state to resume from; null: none, or already restored under `made`
  std::vector<SharedBucket> weights;  ///< made under `made`
  std::atomic<int64_t> steps{0};      ///< number of steps added so far

  Mutex mutex;
  std::vector<RunningStatistics> statistics TRIREME_GUARDED_BY(mutex);

  /// Makes the initial values, equal for all replicas: those of a saved state, or of the first replica that begins.
  void make(const ReplicaState& state) {
    std::vector<at::Tensor> values = state.weights;
    MutexLock lock(mutex);
    statistics = copies_of(state.statistics);
    if (saved) {
      for (at::Tensor& bucket : values) bucket = at::empty_like(bucket);
      StateFields in(*saved, "update policy's state");
      fields(in, values);
      in.done();
      saved.reset();
    }
    for (const at::Tensor& bucket : values) weights.push_back(shared_copy(bucket));
  }

  std::vector<at::Tensor> copies_of_weights() const {
    std::vector<at::Tensor> copies;
    for (const SharedBucket& bucket : weights)
      std::visit(
          [&]<class T>(const LockFree<T>& shared) {
            at::Tensor& copy = copies.emplace_back(at::empty({shared.size()}, c10::CppTypeToScalarType<T>::value));
            shared.read(0, shared.size(), copy.data_ptr<T>(), copy.data_ptr<T>());
          },
          bucket);
    return copies;
  }

  void fields(StateFields& fields, std::vector<at::Tensor>& values) TRIREME_REQUIRES(mutex) {
    int64_t added = steps.load(kRelaxed);
    fields.value("steps", added);
    steps.store(added, kRelaxed);
    fields.weights("shared", values);
    fields.statistics_like("shared", statistics);
  }
};

class HogwildReplica final : public ReplicaPolicy {
 public:
  HogwildReplica(Shared& shared, Hub& hub) : ReplicaPolicy(hub), shared_(shared) {}

  void begin(ReplicaState& state) override {
    std::call_once(shared_.made, [&] { shared_.make(state); });
    for (const at::Tensor& w : state.weights) before_.push_back(at::empty_like(w));
  }

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    steps_read_ = shared_.steps.load(kRelaxed);
    each_stretch(facts, state, [](auto& shared, int64_t begin, int64_t count, auto* mine, auto* before) {
      shared.read(begin, count, mine, before);
    });
    return {.wrote = true};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    each_stretch(facts, state, [](auto& shared, int64_t begin, int64_t count, auto* mine, auto* before) {
      shared.add(begin, count, mine, before);
    });
    hub_.count_staleness(shared_.steps.fetch_add(1, kRelaxed) - steps_read_);
    if (state.statistics.empty()) return false;
    MutexLock lock(shared_.mutex);
    mix_statistics(shared_.statistics, state.statistics, 1.0 / hub_.replicas());
    return false;
  }

  void finish(ReplicaState& state) override {
    hub_.barrier();
    write_values(values_for_evaluation(state), state);
  }

  ModelValues values_for_evaluation(ReplicaState&) override {
    ModelValues values{.weights = shared_.copies_of_weights(), .statistics = {}};
    MutexLock lock(shared_.mutex);
    values.statistics = copies_of(shared_.statistics);
    return values;
  }

 private:
  /// Calls `visit(shared, begin, count, mine, before)` for everything that the step reads and changes.
  template <class Visit>
  void each_stretch(const StepFacts& facts, const ReplicaState& state, const Visit& visit) const {
    for (size_t b = 0; b < state.weights.size(); ++b)
      std::visit([&](auto& shared) { each_stretch_of(shared, b, facts, state, visit); }, shared_.weights[b]);
  }

  template <class T, class Visit>
  void each_stretch_of(LockFree<T>& shared, size_t bucket, const StepFacts& facts, const ReplicaState& state,
                       const Visit& visit) const {
    T* const mine = state.weights[bucket].data_ptr<T>();
    // ranges are packed one after the other, so the few rows of a large table remain in the cache
    T* before = before_[bucket].data_ptr<T>();
    const auto on = [&](int64_t begin, int64_t count) {
      visit(shared, begin, count, mine + begin, before);
      before += count;
    };
    int64_t done = 0;
    for (size_t t = 0; t < state.tables.size(); ++t) {
      const RowTable& table = state.tables[t];
      if (table.bucket != bucket) continue;
      on(done, table.offset - done);
      for (int64_t row : facts.rows.at(t)) on(table.offset + row * table.width, table.width);
      done = table.offset + table.rows * table.width;
    }
    on(done, state.weights[bucket].numel() - done);
  }

  Shared& shared_;
  std::vector<at::Tensor> before_;  ///< by bucket: the values read for the step, in the order of each_stretch
  int64_t steps_read_ = 0;          ///< steps contained in them, or added while they were read
};

class Hogwild final : public UpdatePolicy {
 public:
  std::string description() const override { return "hogwild"; }
  Stops stops() const override { return Stops::anywhere; }
  bool shares_memory() const override { return true; }
  bool takes_rows() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override {
    return std::make_unique<HogwildReplica>(shared_, hub);
  }

 protected:
  void fields(StateFields& fields, double) override {
    if (fields.reads()) {
      shared_.saved = fields.state();
      return;
    }
    std::vector<at::Tensor> values = shared_.copies_of_weights();
    MutexLock lock(shared_.mutex);
    shared_.fields(fields, values);
  }

 private:
  Shared shared_;
};

}  // namespace

template <class T>
LockFree<T>::LockFree(const T* values, int64_t count) : size_(count), words_(size_t((count + kLanes - 1) / kLanes)) {
  for (size_t w = 0; w < words_.size(); ++w) {
    Lanes<T> lanes{};
    const int64_t first = int64_t(w) * kLanes;
    std::copy_n(values + first, std::min(kLanes, count - first), lanes.begin());
    words_[w].store(std::bit_cast<uint64_t>(lanes), kRelaxed);
  }
}

template <class T>
void LockFree<T>::read(int64_t begin, int64_t count, T* mine, T* before) const {
  const auto one = [&](int64_t i) {
    const int64_t at = begin + i;
    mine[i] = before[i] = std::bit_cast<Lanes<T>>(words_[size_t(at / kLanes)].load(kRelaxed))[size_t(at % kLanes)];
  };
  int64_t i = 0;
  for (; i < count && (begin + i) % kLanes != 0; ++i) one(i);
  for (; i + kLanes <= count; i += kLanes) {
    const uint64_t word = words_[size_t((begin + i) / kLanes)].load(kRelaxed);
    std::memcpy(mine + i, &word, sizeof word);
    std::memcpy(before + i, &word, sizeof word);
  }
  for (; i < count; ++i) one(i);
}

template <class T>
void LockFree<T>::add(int64_t begin, int64_t count, const T* mine, const T* before) {
  const auto word_of = [&](int64_t i) -> std::atomic<uint64_t>& { return words_[size_t((begin + i) / kLanes)]; };
  const auto one = [&](int64_t i) { add_lane(word_of(i), size_t((begin + i) % kLanes), mine[i], before[i]); };
  int64_t i = 0;
  for (; i < count && (begin + i) % kLanes != 0; ++i) one(i);
  for (; i + kLanes <= count; i += kLanes) add_word(word_of(i), mine + i, before + i);
  for (; i < count; ++i) one(i);
}

template class LockFree<float>;
template class LockFree<double>;

std::unique_ptr<UpdatePolicy> hogwild() { return std::make_unique<Hogwild>(); }

namespace {

std::unique_ptr<UpdatePolicy> read_hogwild(const ConfigTable& update, const RunFacts& facts) {
  if (!facts.plain_sgd)
    update.fail("policy",
                "hogwild adds what the steps of plain SGD change: another local optimizer has state that other "
                "replicas do not see",
                "write [optimizer] kind = \"sgd\", momentum = 0, or use async-average");
  refuse_compression(update, "replicas that write to one memory send nothing", "leave it out");
  return hogwild();
}

}  // namespace

constinit const PolicyKind kHogwild = {
    .name = "hogwild",
    .description = "replicas write to one copy of the weights without locks (Niu et al., 2011)",
    .read = read_hogwild,
};

}  // namespace trireme
