// Hogwild, shared weights without locks: the paper's invariants and serial references.
#include "update/hogwild.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <set>
#include <thread>
#include <tuple>

#include "../base/expect_error.h"
#include "toy.h"
#include "trireme/config.h"
#include "trireme/error.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/registry.h"
#include "worlds.h"

namespace trireme {
namespace {

std::vector<ToyResult> train_virtually(const ToyProblem& problem, const ToyOptions& options,
                                       const std::vector<double>& seconds) {
  const FixedTimes times(seconds);
  auto policy = hogwild();
  VirtualWorld world(int(seconds.size()), times);
  return train_toy(world, *policy, problem, options);
}

/// The loss over all samples of all replicas.
double objective(const ToyProblem& problem, int replicas, const Vector& w) {
  double sum = 0;
  for (int r = 0; r < replicas; ++r)
    for (int64_t i = 0; i < problem.samples_of(r); ++i) sum += std::pow(problem.error(r, i, w), 2) / 2;
  return sum;
}

TEST(Hogwild, OneThreadIsSerialSgdBitForBit) {
  const ToyProblem problem{.seed = 71};
  auto policy = hogwild();
  ThreadWorld world(1);
  const auto results = train_toy(world, *policy, problem, {.steps = {12}, .learning_rate = kRate});
  EXPECT_EQ(results[0].weights, serial_sgd(problem, 0, 12, kRate));
  EXPECT_EQ(results[0].counts.staleness, std::vector<int64_t>{12});
  EXPECT_EQ(results[0].counts.bytes_sent, 0);
}

/// Serial reference: replicas read when their steps begin and add when they end, in the order of these times; at equal
/// times in the order of the replicas.
Vector reference(const ToyProblem& problem, const std::vector<double>& seconds, int64_t steps) {
  Vector w = problem.initial();
  std::vector<Vector> read(seconds.size(), w), changes(seconds.size(), Vector(w.size()));
  for (const ToyEvent& e : toy_events(seconds, steps + 1)) {
    const auto r = size_t(e.replica);
    if (e.step > 0)
      for (size_t d = 0; d < w.size(); ++d) w[d] += changes[r][d];
    if (e.step == steps) continue;
    read[r] = w;
    const Vector g = problem.gradient(e.replica, e.step, w);
    for (size_t d = 0; d < w.size(); ++d) changes[r][d] = -kRate * g[d];
  }
  return w;
}

TEST(Hogwild, ReadsWhereStepsBeginAndAddsWhereTheyEnd) {
  const ToyProblem problem{.seed = 72};
  for (const std::vector<double>& seconds : {std::vector<double>{1, 1, 1}, {1, 2.5}, {3, 1, 0.4, 1.01}}) {
    const ToyOptions options{.steps = {9}, .learning_rate = kRate};
    const auto results = train_virtually(problem, options, seconds), again = train_virtually(problem, options, seconds);
    for (const ToyResult& result : results)
      EXPECT_LT(largest_difference(result.weights, reference(problem, seconds, 9)), 1e-12);
    for (size_t r = 0; r < seconds.size(); ++r) {
      EXPECT_EQ(results[r].weights, again[r].weights);
      EXPECT_EQ(results[r].counts.staleness, again[r].counts.staleness);
    }
  }
}

TEST(Hogwild, StalenessOfEqualReplicasIsAllTheOthers) {
  const auto results = train_virtually({}, {.steps = {10}, .learning_rate = kRate}, {1, 1, 1, 1});
  for (const ToyResult& result : results) {
    ASSERT_EQ(result.counts.staleness.size(), 4u);
    EXPECT_GE(result.counts.staleness[3], 9);
  }
}

TEST(Hogwild, ASlowReplicaDelaysNoOther) {
  const auto results = train_virtually({}, {.steps = {10, 2, 10}, .learning_rate = kRate}, {1, 40, 1});
  EXPECT_DOUBLE_EQ(results[0].seconds, 10);
  EXPECT_DOUBLE_EQ(results[2].seconds, 10);
}

/// Replicas apply `change` to their weights in every step. Returns the shared weights at the end.
using Change = std::function<void(int replica, int64_t step, Vector& weights)>;
Vector change_shared(HubWorld& world, int64_t elements, int64_t steps, at::ScalarType dtype, const Change& change) {
  auto policy = hogwild();
  std::vector<Vector> results(static_cast<size_t>(world.replicas()));
  run_replicas(world, [&](Hub& hub) {
    ReplicaState state = toy_state(Vector(size_t(elements), 0), dtype);
    auto replica = policy->for_replica(hub);
    replica->begin(state);
    for (int64_t k = 0; k < steps; ++k) {
      const StepFacts facts{.step = k, .samples = 1, .learning_rate = 1};
      replica->before_step(facts, state);
      hub.begin_step();
      Vector w = to_vector(state.weights);
      change(hub.replica(), k, w);
      from_vector(w, state.weights);
      hub.end_step();
      replica->after_step(facts, state);
    }
    replica->finish(state);
    results[size_t(hub.replica())] = to_vector(state.weights);
  });
  for (const Vector& result : results) EXPECT_EQ(result, results[0]);
  return results[0];
}

TEST(Hogwild, NoIncrementIsLost) {
  constexpr int64_t kSteps = 2000, kElements = 6;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble})
    for (const int replicas : {1, 2, 4}) {
      ThreadWorld world(replicas);
      const Vector sums = change_shared(world, kElements, kSteps, dtype, [](int replica, int64_t step, Vector& w) {
        for (size_t d = 0; d < w.size(); ++d) w[d] += double((replica + step + int64_t(d)) % 3 - 1) + double(d);
      });
      for (int64_t d = 0; d < kElements; ++d) {
        double expected = 0;
        for (int r = 0; r < replicas; ++r)
          for (int64_t k = 0; k < kSteps; ++k) expected += double((r + k + d) % 3 - 1) + double(d);
        EXPECT_EQ(sums[size_t(d)], expected) << replicas << " replicas, element " << d;
      }
    }
}

TEST(Hogwild, AConvexProblemReachesTheSerialObjective) {
  // There are more samples than unknowns, so gradients are not zero at the optimum. Each step draws from all samples.
  const ToyProblem problem{.seed = 73, .dims = 8, .samples = {30}};
  constexpr int64_t kSteps = 600, kBatch = 10;
  const auto step_on = [&](int replica, int64_t step, Vector& w) {
    const Philox draw(random_key(75, std::to_string(replica)));
    Vector gradient(w.size());
    for (int64_t i = 0; i < kBatch; ++i)
      problem.add_gradient(0, int64_t(draw.uniform(uint64_t(step * kBatch + i)) * double(problem.samples_of(0))), w,
                           gradient);
    for (size_t d = 0; d < w.size(); ++d) w[d] -= 0.05 / (1 + double(step) / 50) / double(kBatch) * gradient[d];
  };
  ThreadWorld one(1), three(3);
  const double at_first = objective(problem, 1, Vector(size_t(problem.dims)));
  const double serial = objective(problem, 1, change_shared(one, problem.dims, kSteps, at::kDouble, step_on));
  const double together = objective(problem, 1, change_shared(three, problem.dims, kSteps, at::kDouble, step_on));
  EXPECT_LT(serial, 0.7 * at_first);
  EXPECT_LT(together, 1.05 * serial);
}

TEST(Hogwild, DisjointSupportsAreSerialBitForBit) {
  constexpr int64_t kSteps = 300, kElements = 12;
  // Element d belongs to replica d % replicas; every replica would make the same steps on it.
  const auto run = [&](int replicas) {
    ThreadWorld world(replicas);
    return change_shared(world, kElements, kSteps, at::kFloat, [&](int replica, int64_t step, Vector& w) {
      for (size_t d = 0; d < w.size(); ++d) {
        if (int(d) % replicas != replica) continue;
        const double pull = Philox(random_key(74, std::to_string(d))).normal(uint64_t(step));
        w[d] = double(float(w[d]) - float(0.1 * (w[d] - pull)));
      }
    });
  };
  const Vector serial = run(1);
  for (const int replicas : {2, 3, 4}) EXPECT_EQ(run(replicas), serial) << replicas;
}

/// A table of kRows rows in the second of two buckets, with elements before and behind it.
constexpr int64_t kRows = 7, kWidth = 3, kBefore = 2, kBehind = 1;
ReplicaState state_with_table(double value) {
  ReplicaState state;
  state.weights = {at::full({4}, value, at::kFloat), at::full({kBefore + kRows * kWidth + kBehind}, value, at::kFloat)};
  state.moments.resize(2);
  state.tables = {{.bucket = 1, .offset = kBefore, .rows = kRows, .width = kWidth}};
  return state;
}

TEST(Hogwild, OfATableOnlyTheRowsOfTheStepAreReadAndWritten) {
  auto policy = hogwild();
  EXPECT_TRUE(policy->takes_rows());
  EXPECT_TRUE(policy->shares_memory());
  ThreadWorld world(1);
  run_replicas(world, [&](Hub& hub) {
    ReplicaState state = state_with_table(1);
    auto replica = policy->for_replica(hub);
    replica->begin(state);
    const std::vector<std::vector<int64_t>> touched{{2, 5}, {5}, {}, {0, 6, 3}};
    std::vector<double> expected(kRows, 1);
    for (size_t k = 0; k < touched.size(); ++k) {
      // Values that are not read keep this number; values that are not written reach no replica.
      for (at::Tensor& w : state.weights) w.fill_(-50);
      const StepFacts facts{.step = int64_t(k), .samples = 1, .rows = {touched[k]}};
      replica->before_step(facts, state);
      const at::Tensor table = state.weights[1].narrow(0, kBefore, kRows * kWidth).view({kRows, kWidth});
      const std::set<int64_t> rows(touched[k].begin(), touched[k].end());
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t j = 0; j < kWidth; ++j)
          EXPECT_EQ(table[row][j].item<float>(), rows.contains(row) ? float(expected[size_t(row)]) : -50.0f)
              << k << " " << row;
      EXPECT_EQ(state.weights[1][0].item<float>(), float(1 + k));  // elements outside the table are all read
      for (at::Tensor& w : state.weights) w.add_(1);
      replica->after_step(facts, state);
      for (int64_t row : rows) expected[size_t(row)] += 1;
      const at::Tensor shared = replica->values_for_evaluation(state).weights[1];
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t j = 0; j < kWidth; ++j)
          EXPECT_EQ(shared[kBefore + row * kWidth + j].item<float>(), float(expected[size_t(row)])) << k << " " << row;
      EXPECT_EQ(shared[kBefore + kRows * kWidth].item<float>(), float(2 + k));
    }
    replica->finish(state);
    EXPECT_EQ(state.weights[1][kBefore + 2 * kWidth].item<float>(), float(expected[2]));
    EXPECT_EQ(state.weights[0][0].item<float>(), 5);
  });
}

TEST(LockFree, TakesBitsThatNoOtherReplicaHasWritten) {
  // 1e8 + (1 - 1e8) is not 1 in float.
  const std::vector<float> first{1e8f, 1e8f, -0.0f, 0.0f, 3.0f};
  LockFree<float> shared(first.data(), 5);
  std::vector<float> before(5), mine(5), now(5);
  shared.read(0, 5, mine.data(), before.data());
  EXPECT_EQ(mine, first);
  const std::vector<float> other{16.0f};
  shared.add(1, 1, other.data(), first.data() + 1);
  mine = {1.0f, 1e8f + 8, 0.0f, 0.0f, NAN};
  shared.add(0, 5, mine.data(), before.data());
  shared.read(0, 5, now.data(), now.data());
  EXPECT_EQ(now[0], 1.0f);
  EXPECT_EQ(now[1], 24.0f);
  EXPECT_FALSE(std::signbit(now[2]));
  EXPECT_EQ(now[3], 0.0f);
  EXPECT_TRUE(std::isnan(now[4]));
  // A step on a NaN ends too.
  const float one = 1, two = 2;
  shared.add(4, 1, &two, &one);
  shared.read(4, 1, now.data(), now.data());
  EXPECT_TRUE(std::isnan(now[0]));
}

/// Threads work on stretches that begin or end within a word that another thread also writes.
TEST(LockFree, NothingIsLostWhereStretchesShareAWord) {
  constexpr int64_t kElements = 11, kAdditions = 20000;
  const auto additions_lost = []<class T>(T) {
    const std::vector<T> zeros(static_cast<size_t>(kElements), 0);
    LockFree<T> shared(zeros.data(), kElements);
    const std::vector<std::pair<int64_t, int64_t>> stretches{{0, 3}, {3, 3}, {2, 6}, {6, 5}};
    std::vector<std::thread> threads;
    for (const auto& [begin, count] : stretches)
      threads.emplace_back([&shared, begin = begin, count = count] {
        std::vector<T> mine(static_cast<size_t>(count)), before(mine.size());
        for (int64_t k = 0; k < kAdditions; ++k) {
          shared.read(begin, count, mine.data(), before.data());
          for (size_t i = 0; i < mine.size(); ++i) mine[i] += T(i + 1);
          shared.add(begin, count, mine.data(), before.data());
        }
      });
    for (std::thread& thread : threads) thread.join();
    std::vector<T> sums(static_cast<size_t>(kElements)), expected(sums.size(), 0);
    shared.read(0, kElements, sums.data(), sums.data());
    for (const auto& [begin, count] : stretches)
      for (int64_t i = 0; i < count; ++i) expected[size_t(begin + i)] += T(kAdditions * (i + 1));
    EXPECT_EQ(sums, expected);
  };
  additions_lost(float{});
  additions_lost(double{});
}

TEST(Hogwild, RunningStatisticsAreAMixture) {
  const auto of_replica = [](int replica) {
    return std::vector<RunningStatistics>{
        {at::full({2}, double(replica), at::kDouble), at::full({2}, 1.0, at::kDouble)}};
  };
  const auto results = train_virtually({}, {.steps = {1}, .learning_rate = kRate, .statistics = of_replica}, {1, 2});
  // It begins with replica 0's mean 0 and variance 1, and takes in half of replica 1's, 1 and 1.
  for (const ToyResult& result : results) {
    EXPECT_DOUBLE_EQ(result.statistics[0].mean[0].item<double>(), 0.5);
    EXPECT_DOUBLE_EQ(result.statistics[0].variance[0].item<double>(), 1.25);
  }
}

TEST(Hogwild, RefusesWhatCarriesSomethingOver) {
  const ConfigTable table = ConfigTable::from_string("policy = \"hogwild\"\n", "x.toml");
  expect_error(Blame::user, {"hogwild", "momentum = 0"},
               [&] { kHogwild.read(table, {.replicas = 2, .seed = 0, .plain_sgd = false}); });
  EXPECT_NE(kHogwild.read(table, {.replicas = 2, .seed = 0, .plain_sgd = true}), nullptr);
}

}  // namespace
}  // namespace trireme
