// Compares async-average with serial references in double.
#include <gtest/gtest.h>

#include "comm/formulas.h"
#include "toy.h"
#include "update/async_average.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "virtual_toy.h"
#include "worlds.h"

namespace trireme {
namespace {

TEST(AsyncAverage, CoefficientsHalveFromTheLastArrivalBackwards) {
  constexpr int n = 5;
  auto policy = async_average({});
  const FixedTimes times({3, 1, 5, 2, 4});  // replicas arrive in the order 1, 3, 0, 4, 2
  VirtualWorld world(n, times, {}, policy->server());
  Vector model;
  const auto weights_of = [](int r) { return Vector{r + 1.0, 10.0 * r, -r * r * 1.0, 0.5, 1}; };
  const Vector first = {7, 7, 7, 7, 1};
  run_replicas(world, [&](Hub& hub) {
    ReplicaState state = toy_state(first);
    auto replica = policy->for_replica(hub);
    replica->begin(state);
    hub.begin_step();
    from_vector(weights_of(hub.replica()), state.weights);
    hub.end_step();
    replica->after_step({.samples = 4, .ends_epoch = true}, state);
    if (hub.now() != 5) return;
    model = to_vector(state.weights);
    EXPECT_EQ(to_vector(replica->values_for_evaluation(state).weights), model);
  });
  const int order[] = {1, 3, 0, 4, 2};
  for (size_t d = 0; d < model.size(); ++d) {
    double expected = first[d] / std::pow(2, n);
    for (int i = 1; i <= n; ++i) expected += weights_of(order[i - 1])[d] / std::pow(2, n - i + 1);
    EXPECT_NEAR(model[d], expected, 1e-14);
  }
  EXPECT_EQ(model.back(), 1) << "the coefficients add up to 1";
}

/// Serial reference for replicas of these speeds: one event after the other.
struct AsyncReference {
  ToyProblem problem;
  std::vector<double> seconds;
  bool by_samples = false;
  std::vector<Vector> weights = {};
  Vector model = {};

  void run(int64_t epochs) {
    const int n = int(seconds.size());
    model = problem.initial();
    weights.assign(size_t(n), model);
    Vector time(size_t(n), 0.0), seen(size_t(n), 0.0);
    std::vector<int64_t> done(size_t(n), 0);
    double merged = 0;
    for (int64_t event = 0; event < n * epochs; ++event) {
      int next = -1;
      double at = 0;
      for (int r = 0; r < n; ++r) {
        const double end = time[size_t(r)] + seconds[size_t(r)] * double(problem.steps_per_epoch(r));
        if (done[size_t(r)] < epochs && (next < 0 || end < at)) std::tie(next, at) = std::pair(r, end);
      }
      const auto r = size_t(next);
      time[r] = at;
      ++done[r];
      Vector& w = weights[r];
      for (int64_t k = 0; k < problem.steps_per_epoch(next); ++k) {
        const Vector g = problem.gradient(next, k, w);
        for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d];
      }
      const double own = double(problem.samples_of(next));
      const double share = by_samples ? own / (own + merged - seen[r]) : 0.5;
      for (size_t d = 0; d < w.size(); ++d) w[d] = model[d] = (1 - share) * model[d] + share * w[d];
      seen[r] = merged += own;
    }
  }
};

TEST(AsyncAverage, FollowsTheOrderOfArrival) {
  for (const bool by_samples : {false, true}) {
    const ToyProblem problem{.seed = 12, .samples = {12, 20, 9}};
    AsyncReference reference{.problem = problem, .seconds = {1, 1.7, 0.6}, .by_samples = by_samples};
    reference.run(4);
    Vector expected = reference.model;
    if (!by_samples)
      for (size_t d = 0; d < expected.size(); ++d)
        expected[d] = (reference.weights[0][d] + reference.weights[1][d] + reference.weights[2][d]) / 3;
    std::vector<Vector> whole;
    for (const int shards : {1, 4}) {
      const auto share = by_samples ? AsyncAverageOptions::Share::by_samples : AsyncAverageOptions::Share::half;
      auto policy = async_average({.share = share, .shards = shards});
      const auto results =
          train_virtually(*policy, problem, {.steps = {12, 20, 12}, .learning_rate = kRate}, 3, reference.seconds);
      for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, expected), 1e-13);
      whole.push_back(results[0].weights);
    }
    EXPECT_EQ(whole[0], whole[1]) << "where replicas come one after another shards change nothing";
  }
}

TEST(AsyncAverage, SharesBySamplesOfOneReplicaAreSerialSgd) {
  const ToyProblem problem{.seed = 13};
  auto policy = async_average({.every = steps(5), .share = AsyncAverageOptions::Share::by_samples});
  const auto results = train_virtually(*policy, problem, {.steps = {13}, .learning_rate = kRate, .momentum = 0.9}, 1);
  EXPECT_EQ(results[0].weights, serial_sgd(problem, 0, 13, kRate, 0.9));
}

TEST(AsyncAverage, EqualReplicasAreAFixedPoint) {
  const ToyProblem problem{.seed = 14};
  for (const auto share : {AsyncAverageOptions::Share::half, AsyncAverageOptions::Share::by_samples}) {
    auto policy = async_average({.share = share});
    for (const ToyResult& result : train_virtually(*policy, problem, {.steps = {6}, .learning_rate = 0}, 3))
      EXPECT_LT(largest_difference(result.weights, problem.initial()), 1e-15);
  }
}

TEST(AsyncAverage, ASlowReplicaDelaysNoOther) {
  const ToyProblem problem;  // 3 steps per epoch
  auto policy = async_average({});
  const auto results = train_virtually(*policy, problem, {.steps = {12}, .learning_rate = kRate}, 3, {1, 1, 30});
  EXPECT_DOUBLE_EQ(results[0].seconds, 12);
  EXPECT_DOUBLE_EQ(results[1].seconds, 12);
  EXPECT_DOUBLE_EQ(results[2].seconds, 360);
  EXPECT_EQ(results[0].counts.bytes_sent,
            int64_t{4} * 11 * 8 + all_reduce_bytes(4, 8, 3, 0) + all_reduce_bytes(7, 8, 3, 0));
}

TEST(AsyncAverage, StalenessCountsTheMergesOfOthers) {
  const ToyProblem problem;
  auto policy = async_average({});
  const auto results = train_virtually(*policy, problem, {.steps = {12}, .learning_rate = kRate}, 4);
  for (int r = 0; r < 4; ++r) {
    std::vector<int64_t> expected(4, 0);
    ++expected[size_t(r)];  // in the first round, r replicas come before
    expected[3] += 3;       // later, all others
    EXPECT_EQ(results[size_t(r)].counts.staleness, expected);
  }
}

TEST(AsyncAverage, IsBitEqualOverTwoRunsOf64Replicas) {
  const ToyProblem problem{.seed = 15, .samples = {8, 12, 5}};
  const auto run = [&] {
    ModelledSteps times;
    times.base_seconds = {1};
    times.jitter = 0.5;
    times.straggle_probability = 0.1;
    times.straggle_factor = 5;
    times.seed = 16;
    auto policy = async_average({});
    const VirtualLinks links{.replicas = {{.bandwidth = 1e4, .latency = 0.01}},
                             .server = {.bandwidth = 2e4, .latency = 0.02}};
    VirtualWorld world(64, times, links, policy->server());
    return train_toy(world, *policy, problem, {.steps = {6}, .learning_rate = kRate, .dtype = at::kFloat});
  };
  const auto first = run(), second = run();
  for (size_t r = 0; r < 64; ++r) {
    EXPECT_EQ(first[r].weights, second[r].weights);
    EXPECT_EQ(first[r].seconds, second[r].seconds);
    EXPECT_EQ(first[r].counts.staleness, second[r].counts.staleness);
    EXPECT_EQ(first[r].counts.exchange_seconds, second[r].counts.exchange_seconds);
  }
}

TEST(AsyncAverage, ThreadsLoseNoMerge) {
  const ToyProblem problem{.seed = 17};
  for (const int shards : {1, 3}) {
    auto policy = async_average({.every = steps(1), .share = AsyncAverageOptions::Share::by_samples, .shards = shards});
    ThreadWorld world(4, policy->server());
    const auto results = train_toy(world, *policy, problem, {.steps = {24}, .learning_rate = kRate});
    int64_t merges = 0;
    for (const ToyResult& result : results) {
      for (const int64_t count : result.counts.staleness) merges += count;
      EXPECT_EQ(result.weights, results[0].weights) << "the model";
    }
    EXPECT_EQ(merges, 4 * 24);
  }
}

}  // namespace
}  // namespace trireme
