#include "update/hogwild.h"

#include <ATen/ATen.h>

#include <atomic>
#include <bit>
#include <mutex>
#include <type_traits>

#include "update/statistics.h"

namespace trireme {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// 0 and -0 differ, and what is no number is equal to itself.
template <class T>
bool same_bits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == sizeof(uint32_t), uint32_t, uint64_t>;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

/// Memory of all replicas.
struct Shared {
  std::once_flag made;
  std::vector<at::Tensor> weights;  ///< made under `made`; from then on their elements are reached through LockFree only
  std::atomic<int64_t> steps{0};    ///< that have been added

  std::mutex mutex;
  std::vector<RunningStatistics> statistics;  ///< guarded by mutex
};

class HogwildReplica final : public ReplicaPolicy {
 public:
  HogwildReplica(Shared& shared, Hub& hub) : shared_(shared), hub_(hub) {}

  void begin(ReplicaState& state) override {
    std::call_once(shared_.made, [&] {  // all begin with the same values
      for (const at::Tensor& w : state.weights) shared_.weights.push_back(w.clone());
      shared_.statistics = copies_of(state.statistics);
    });
    for (const at::Tensor& w : state.weights) before_.push_back(at::empty_like(w));
  }

  Before before_step(const StepFacts& facts, ReplicaState& state) override {
    steps_read_ = shared_.steps.load(kRelaxed);
    each_stretch(facts, state, [](auto* shared, int64_t elements, auto* mine, auto* before) {
      LockFree<std::remove_pointer_t<decltype(mine)>>::read(shared, elements, mine, before);
    });
    return {.wrote = true};
  }

  bool after_step(const StepFacts& facts, ReplicaState& state) override {
    each_stretch(facts, state, [](auto* shared, int64_t elements, auto* mine, auto* before) {
      LockFree<std::remove_pointer_t<decltype(mine)>>::add(shared, elements, mine, before);
    });
    hub_.count_staleness(shared_.steps.fetch_add(1, kRelaxed) - steps_read_);
    if (state.statistics.empty()) return false;
    std::lock_guard lock(shared_.mutex);
    mix_statistics(shared_.statistics, state.statistics, 1.0 / hub_.replicas());
    return false;
  }

  void finish(ReplicaState& state) override {
    hub_.barrier();
    write_values(values_for_evaluation(state), state);
  }

  ModelValues values_for_evaluation(ReplicaState&) override {
    ModelValues values;
    for (const at::Tensor& from : shared_.weights) {
      at::Tensor& to = values.weights.emplace_back(at::empty_like(from));
      if (from.scalar_type() == at::kDouble) copy<double>(from, to);
      else copy<float>(from, to);
    }
    std::lock_guard lock(shared_.mutex);
    values.statistics = copies_of(shared_.statistics);
    return values;
  }

 private:
  template <class T>
  static void copy(const at::Tensor& shared, const at::Tensor& to) {
    LockFree<T>::read(shared.data_ptr<T>(), shared.numel(), to.data_ptr<T>(), to.data_ptr<T>());
  }

  /// Everything that the step reads and changes: `visit(shared, elements, mine, before)`.
  template <class Visit>
  void each_stretch(const StepFacts& facts, const ReplicaState& state, const Visit& visit) const {
    for (size_t b = 0; b < state.weights.size(); ++b) {
      if (state.weights[b].scalar_type() == at::kDouble) each_stretch_of<double>(b, facts, state, visit);
      else each_stretch_of<float>(b, facts, state, visit);
    }
  }

  template <class T, class Visit>
  void each_stretch_of(size_t bucket, const StepFacts& facts, const ReplicaState& state, const Visit& visit) const {
    T* shared = shared_.weights[bucket].data_ptr<T>();
    T* mine = state.weights[bucket].data_ptr<T>();
    T* before = before_[bucket].data_ptr<T>();
    const auto on = [&](int64_t begin, int64_t elements) { visit(shared + begin, elements, mine + begin, before + begin); };
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
  Hub& hub_;
  std::vector<at::Tensor> before_;  ///< weights as they were read for the step
  int64_t steps_read_ = 0;          ///< that were in them, or came in while they were read
};

class Hogwild final : public UpdatePolicy {
 public:
  bool shares_memory() const override { return true; }
  bool takes_rows() const override { return true; }
  std::unique_ptr<ReplicaPolicy> for_replica(Hub& hub) override { return std::make_unique<HogwildReplica>(shared_, hub); }

 private:
  Shared shared_;
};

}  // namespace

template <class T>
void LockFree<T>::read(T* shared, int64_t elements, T* mine, T* before) {
  for (int64_t i = 0; i < elements; ++i) {
    const T value = std::atomic_ref<T>(shared[i]).load(kRelaxed);
    mine[i] = value;
    before[i] = value;
  }
}

template <class T>
void LockFree<T>::add(T* shared, int64_t elements, const T* mine, const T* before) {
  for (int64_t i = 0; i < elements; ++i) {
    if (same_bits(mine[i], before[i])) continue;
    const std::atomic_ref<T> cell(shared[i]);
    T seen = before[i];
    if (cell.compare_exchange_strong(seen, mine[i], kRelaxed)) continue;  // nobody was here: before + (mine - before) might be rounded
    const T change = mine[i] - before[i];
    while (!cell.compare_exchange_weak(seen, seen + change, kRelaxed)) {
    }
  }
}

template struct LockFree<float>;
template struct LockFree<double>;

std::unique_ptr<UpdatePolicy> hogwild() { return std::make_unique<Hogwild>(); }

std::unique_ptr<UpdatePolicy> read_hogwild(const ConfigTable& update, const RunFacts& facts) {
  if (!facts.plain_sgd)
    update.fail("policy", "hogwild adds what the steps of plain SGD change: another local optimizer carries over what others cannot see",
                "write [optimizer] kind = \"sgd\", momentum = 0, or take async-average");
  return hogwild();
}

}  // namespace trireme
