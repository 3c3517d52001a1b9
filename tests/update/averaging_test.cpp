// Compares local-sgd with serial references in double; running statistics under local-sgd and async-average.
#include <gtest/gtest.h>

#include <optional>

#include "comm/formulas.h"
#include "toy.h"
#include "update/async_average.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/local_sgd.h"
#include "virtual_toy.h"
#include "worlds.h"

namespace trireme {
namespace {

const Length kEachEpoch{1, Length::Unit::epochs};

/// Plain local SGD of n replicas. `average_after(k)`: true if weights are averaged after step k.
struct LocalSgdReference {
  ToyProblem problem;
  int n;
  double momentum = 0;
  Moments moments = Moments::kept;
  bool by_samples = false;

  std::vector<Vector> weights = {}, buffers = {};

  void average(std::vector<Vector>& of, const Vector& shares) const {
    Vector mean(of.front().size());
    double all = 0;
    for (int r = 0; r < n; ++r) {
      all += shares[size_t(r)];
      for (size_t d = 0; d < mean.size(); ++d) mean[d] += shares[size_t(r)] * of[size_t(r)][d];
    }
    for (double& m : mean) m /= all;
    for (Vector& v : of) v = mean;
  }

  void run(const std::vector<int64_t>& steps_of, const std::function<bool(int64_t)>& average_after) {
    weights.assign(size_t(n), problem.initial());
    buffers.assign(size_t(n), Vector(size_t(problem.dims)));
    Vector seen(static_cast<size_t>(n));
    const int64_t last = *std::max_element(steps_of.begin(), steps_of.end());
    for (int64_t k = 0; k < last; ++k) {
      for (int r = 0; r < n; ++r) {
        if (k >= steps_of[size_t(r)]) continue;
        Vector &w = weights[size_t(r)], &m = buffers[size_t(r)];
        const Vector g = problem.gradient(r, k, w);
        for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * (m[d] = momentum * m[d] + g[d]);
        seen[size_t(r)] += double(problem.samples_in(r, k));
      }
      if (!average_after(k) && k + 1 < last) continue;
      const Vector shares = by_samples ? seen : Vector(size_t(n), 1.0);
      average(weights, shares);
      if (moments == Moments::averaged) average(buffers, shares);
      if (moments == Moments::reset) buffers.assign(size_t(n), Vector(size_t(problem.dims)));
      std::fill(seen.begin(), seen.end(), 0.0);
    }
  }
};

TEST(LocalSgd, OneReplicaIsSerialSgd) {
  const ToyProblem problem;
  for (const Length every : {steps(1), steps(5), kEachEpoch}) {
    auto policy = local_sgd({.every = every, .weight_by_samples = true});
    const auto results = train_virtually(*policy, problem, {.steps = {14}, .learning_rate = kRate, .momentum = 0.9}, 1);
    EXPECT_EQ(results[0].weights, serial_sgd(problem, 0, 14, kRate, 0.9));
    EXPECT_EQ(results[0].counts.bytes_sent, 0);
  }
}

TEST(LocalSgd, EveryStepOfPlainSgdIsMiniBatchSgd) {
  const ToyProblem problem{.seed = 3};
  auto policy = local_sgd({.every = steps(1)});
  const auto results = train_virtually(*policy, problem, {.steps = {12}, .learning_rate = kRate}, 4);
  Vector w = problem.initial();
  for (int64_t k = 0; k < 12; ++k) {
    Vector g(w.size());
    for (int r = 0; r < 4; ++r) {
      const Vector part = problem.gradient(r, k, w);
      for (size_t d = 0; d < w.size(); ++d) g[d] += part[d] / 4;
    }
    for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d];
  }
  for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, w), 1e-13);
}

TEST(LocalSgd, OneAverageAtTheEndIsOneShotAveraging) {
  const ToyProblem problem{.seed = 7};
  auto policy = local_sgd({.every = steps(15)});
  const auto results = train_virtually(*policy, problem, {.steps = {15}, .learning_rate = kRate, .momentum = 0.9}, 3);
  Vector mean(problem.initial().size());
  for (int r = 0; r < 3; ++r) {
    const Vector alone = serial_sgd(problem, r, 15, kRate, 0.9);
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += alone[d] / 3;
  }
  for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, mean), 1e-13);
  auto twice = local_sgd({.every = steps(8)});
  EXPECT_GT(
      largest_difference(
          train_virtually(*twice, problem, {.steps = {15}, .learning_rate = kRate, .momentum = 0.9}, 3)[0].weights,
          mean),
      1e-4);
}

TEST(LocalSgd, MomentsAreKeptAveragedOrReset) {
  const ToyProblem problem{.seed = 4};
  Vector last;
  for (const Moments moments : {Moments::kept, Moments::averaged, Moments::reset}) {
    auto policy = local_sgd({.every = steps(4), .moments = moments});
    const auto results =
        train_virtually(*policy, problem, {.steps = {14}, .learning_rate = kRate, .momentum = 0.8}, 3);  // 2 steps over
    LocalSgdReference reference{.problem = problem, .n = 3, .momentum = 0.8, .moments = moments};
    reference.run({14, 14, 14}, [](int64_t k) { return (k + 1) % 4 == 0; });
    for (int r = 0; r < 3; ++r) {
      EXPECT_LT(largest_difference(results[size_t(r)].weights, reference.weights[size_t(r)]), 1e-13) << int(moments);
      EXPECT_EQ(results[size_t(r)].weights, results[0].weights) << "all agree at the end";
    }
    EXPECT_GT(largest_difference(results[0].weights, last), 1e-4) << "each does something else";
    last = results[0].weights;
  }
}

TEST(LocalSgd, AveragesEachEpochBySamples) {
  const ToyProblem problem{.seed = 5, .samples = {12, 7, 20}};  // 3, 2 and 5 steps per epoch
  for (const bool by_samples : {false, true}) {
    auto policy = local_sgd({.every = {2, Length::Unit::epochs}, .weight_by_samples = by_samples});
    const auto results = train_virtually(*policy, problem, {.steps = {12, 8, 20}, .learning_rate = kRate}, 3);
    // The same without parallel steps: each replica trains two epochs, then all average.
    std::vector<Vector> w(3, problem.initial());
    for (int round = 0; round < 2; ++round) {
      Vector mean(w[0].size());
      double all = 0;
      for (int r = 0; r < 3; ++r) {
        for (int64_t k = 0; k < 2 * problem.steps_per_epoch(r); ++k) {
          const Vector g = problem.gradient(r, k, w[size_t(r)]);
          for (size_t d = 0; d < g.size(); ++d) w[size_t(r)][d] -= kRate * g[d];
        }
        const double share = by_samples ? double(problem.samples_of(r)) : 1;
        all += share;
        for (size_t d = 0; d < mean.size(); ++d) mean[d] += share * w[size_t(r)][d];
      }
      for (double& m : mean) m /= all;
      w.assign(3, mean);
    }
    EXPECT_LT(largest_difference(results[1].weights, w[0]), 1e-13);
  }
}

TEST(LocalSgd, OneFullBatchStepEachIsTheFullBatchStepOnlyIfWeightedBySamples) {
  const ToyProblem problem{.seed = 6, .samples = {3, 10, 17}, .batch = 20};
  Vector w = problem.initial(), g(w.size());
  for (int r = 0; r < 3; ++r)
    for (int64_t i = 0; i < problem.samples_of(r); ++i) problem.add_gradient(r, i, problem.initial(), g);
  for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d] / 30;
  const auto trained = [&](bool by_samples) {
    auto policy = local_sgd({.every = kEachEpoch, .weight_by_samples = by_samples});
    return train_virtually(*policy, problem, {.steps = {1}, .learning_rate = kRate}, 3)[0].weights;
  };
  EXPECT_LT(largest_difference(trained(true), w), 1e-13);
  EXPECT_GT(largest_difference(trained(false), w), 1e-3);
}

TEST(LocalSgd, PostLocalAveragesEveryStepAtFirst) {
  const ToyProblem problem{.seed = 8};
  auto policy = local_sgd({.every = steps(4), .post_local_after = steps(3)});
  const auto results = train_virtually(*policy, problem, {.steps = {13}, .learning_rate = kRate, .momentum = 0.5}, 2);
  LocalSgdReference reference{.problem = problem, .n = 2, .momentum = 0.5};
  reference.run({13, 13}, [](int64_t k) { return k < 3 || k == 6 || k == 10; });
  EXPECT_LT(largest_difference(results[0].weights, reference.weights[0]), 1e-13);
  // Averages: 3 at first, after steps 7 and 11, and at the end; buckets of 4, 0 and 7 elements.
  EXPECT_EQ(results[0].counts.bytes_sent, 6 * (all_reduce_bytes(4, 8, 2, 0) + all_reduce_bytes(7, 8, 2, 0)));
  EXPECT_EQ(results[0].counts.collectives, 6);
}

TEST(LocalSgd, ThreadsAndTheVirtualClockGiveTheSameBits) {
  const ToyProblem problem{.seed = 9, .samples = {12, 10, 12, 11}};
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    const LocalSgdOptions options{.every = steps(2), .weight_by_samples = true, .moments = Moments::averaged};
    const ToyOptions toy{.steps = {9}, .learning_rate = kRate, .momentum = 0.9, .dtype = dtype};
    auto first = local_sgd(options), second = local_sgd(options);
    ThreadWorld threads(4);
    const auto real = train_toy(threads, *first, problem, toy);
    const auto modelled = train_virtually(*second, problem, toy, 4, {1, 2, 3, 4});
    for (size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(real[r].weights, modelled[r].weights);
      EXPECT_EQ(real[r].moments, modelled[r].moments);
      EXPECT_EQ(real[r].counts.bytes_sent, modelled[r].counts.bytes_sent);
      EXPECT_EQ(real[r].counts.bytes_received, modelled[r].counts.bytes_received);
    }
  }
}

TEST(LocalSgd, TheSlowestReplicaDelaysAll) {
  const ToyProblem problem;  // 3 steps per epoch
  auto policy = local_sgd({.every = kEachEpoch});
  const auto results = train_virtually(*policy, problem, {.steps = {12}, .learning_rate = kRate}, 3, {1, 1, 3});
  EXPECT_DOUBLE_EQ(results[0].counts.idle_seconds, 4 * 6.0);
  EXPECT_DOUBLE_EQ(results[2].counts.idle_seconds, 0);
  EXPECT_DOUBLE_EQ(results[0].seconds, 4 * 9.0);
}

TEST(LocalSgd, EvaluatesTheAverageAndChangesNothing) {
  const ToyProblem problem{.seed = 10};
  auto policy = local_sgd({.every = steps(6)});
  std::vector<Vector> own(2), mean(2), after(2);
  ToyOptions options{.steps = {4}, .learning_rate = kRate};
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy& replica, Hub& hub) {
    if (k != 3) return;
    own[size_t(r)] = to_vector(state.weights);
    const int64_t sent = hub.counts().bytes_sent;
    mean[size_t(r)] = to_vector(replica.values_for_evaluation(state).weights);
    after[size_t(r)] = to_vector(state.weights);
    EXPECT_EQ(hub.counts().bytes_sent, sent);
  };
  train_virtually(*policy, problem, options, 2, {1, 2});
  EXPECT_EQ(own, after);
  for (size_t d = 0; d < own[0].size(); ++d)
    for (const Vector& m : mean) EXPECT_NEAR(m[d], (own[0][d] + own[1][d]) / 2, 1e-15);
}

// -- running statistics

/// Mean and population variance, by channel, of samples 0 to n-1 of each replica in `members`.
RunningStatistics statistics_of_samples(const std::vector<std::pair<int, int64_t>>& members) {
  RunningStatistics s{at::zeros({3}, at::kDouble), at::zeros({3}, at::kDouble)};
  for (int64_t c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    int64_t n = 0;
    for (const auto& [replica, samples] : members)
      for (int64_t i = 0; i < samples; ++i, ++n) {
        const double x = 2 * replica + (1 + replica) * Philox(99).normal(uint64_t(i), uint64_t(replica * 3 + c));
        sum += x;
        squares += x * x;
      }
    s.mean[c] = sum / double(n);
    s.variance[c] = squares / double(n) - sum / double(n) * sum / double(n);
  }
  return s;
}

void expect_statistics(const RunningStatistics& got, const RunningStatistics& wanted) {
  EXPECT_LT((got.mean - wanted.mean).abs().max().item<double>(), 1e-12);
  EXPECT_LT((got.variance - wanted.variance).abs().max().item<double>(), 1e-12);
}

TEST(LocalSgd, RunningStatisticsAreThoseOfAllSamplesTogether) {
  const ToyProblem problem{.samples = {8, 4, 12}};
  const auto own = [&](int r) { return std::vector{statistics_of_samples({{r, problem.samples_of(r)}})}; };
  auto weighted = local_sgd({.every = kEachEpoch, .weight_by_samples = true});
  for (const ToyResult& result : train_virtually(*weighted, problem, {.steps = {2, 1, 3}, .statistics = own}, 3))
    expect_statistics(result.statistics[0], statistics_of_samples({{0, 8}, {1, 4}, {2, 12}}));
  auto kept = local_sgd({.every = kEachEpoch, .average_statistics = false});
  const auto results = train_virtually(*kept, problem, {.steps = {2, 1, 3}, .statistics = own}, 3);
  for (int r = 0; r < 3; ++r) expect_statistics(results[size_t(r)].statistics[0], own(r)[0]);
}

TEST(AsyncAverage, MixesRunningStatistics) {
  const ToyProblem problem;
  // Merging twice with 1/2 gives the statistics of equally many samples of each.
  const auto own = [&](int r) { return std::vector{statistics_of_samples({{r, 40}})}; };
  auto policy = async_average({.every = kEachEpoch});
  std::optional<RunningStatistics> merged;
  ToyOptions options{.steps = {3}, .statistics = own};
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy& replica, Hub&) {
    if (r == 1 && k == 2) merged = replica.values_for_evaluation(state).statistics[0];
  };
  train_virtually(*policy, problem, options, 2);
  // Replica 0 begins the model and merges itself; then replica 1 merges.
  expect_statistics(*merged, statistics_of_samples({{0, 40}, {1, 40}}));
}

/// Plain delayed averaging: every H steps n replicas start an average, which is applied d steps later.
std::vector<Vector> delayed_averages(const ToyProblem& problem, int n, int64_t h, int64_t d, int64_t last) {
  std::vector<Vector> weights(size_t(n), problem.initial()), set_out;
  for (int64_t k = 0; k < last; ++k) {
    for (int r = 0; r < n; ++r) {
      const Vector g = problem.gradient(r, k, weights[size_t(r)]);
      for (size_t i = 0; i < g.size(); ++i) weights[size_t(r)][i] -= kRate * g[i];
    }
    if (k >= h && (k + 1 - d) % h == 0)
      for (size_t i = 0; i < weights[0].size(); ++i) {
        double mean = 0;
        for (const Vector& w : set_out) mean += w[i] / n;
        for (int r = 0; r < n; ++r) weights[size_t(r)][i] += mean - set_out[size_t(r)][i];
      }
    if ((k + 1) % h == 0) set_out = weights;
  }
  return weights;
}

TEST(LocalSgd, WithOverlapItIsDelayedAveraging) {
  const ToyProblem problem{.seed = 21, .samples = {12, 7, 20}};
  for (const int64_t overlap : {1, 3, 4}) {
    const LocalSgdOptions options{.every = steps(4), .overlap = overlap};
    const auto policy = local_sgd(options);
    std::vector<Vector> last(3);
    ToyOptions toy{.steps = {14}, .learning_rate = kRate};
    toy.watch = [&](int replica, int64_t step, ReplicaState& state, ReplicaPolicy&, Hub&) {
      if (step == 13) last[size_t(replica)] = to_vector(state.weights);
    };
    const auto results = train_virtually(*policy, problem, toy, 3);
    const std::vector<Vector> expected = delayed_averages(problem, 3, 4, overlap, 14);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_LT(largest_difference(last[r], expected[r]), 1e-13) << overlap;
      EXPECT_EQ(results[r].weights, results[0].weights);
    }
    const auto again = local_sgd(options);
    ThreadWorld threads(3);
    EXPECT_EQ(train_toy(threads, *again, problem, {.steps = {14}, .learning_rate = kRate})[0].weights,
              results[0].weights);
  }
}

TEST(LocalSgd, OverlapHidesAsManySteps) {
  const ToyProblem problem{.seed = 22};
  const double bytes = 2.0 * 11 * 8 / 2;  // for 11 weights on a ring of two
  const VirtualLinks links{
      .replicas = {{.bandwidth = bytes / 2.5, .latency = 0}}};  // an average takes 2.5 s, a step 1 s
  const auto seconds = [&](int64_t overlap) {
    const auto policy = local_sgd({.every = steps(4), .overlap = overlap});
    return train_virtually(*policy, problem, {.steps = {12}, .learning_rate = kRate}, 2, {1}, links)[0].seconds;
  };
  EXPECT_NEAR(seconds(0), 12 + 3 * 2.5, 1e-9);
  EXPECT_NEAR(seconds(1), 12 + 2 * 1.5, 1e-9) << "the last one is still under way";
  EXPECT_EQ(seconds(3), 12);
}

}  // namespace
}  // namespace trireme
