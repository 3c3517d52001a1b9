// Policies with a parameter server, downpour, partial and shat: invariants and serial references.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "toy.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/partial.h"
#include "update/shat.h"
#include "virtual_toy.h"
#include "worlds.h"

namespace trireme {
namespace {

// -- downpour

TEST(Downpour, OneReplicaThatFetchesAndPushesEachStepIsSerialSgd) {
  const ToyProblem problem{.seed = 41};
  for (const int shards : {1, 4}) {
    auto policy = downpour({.shards = shards}, 1);
    const auto results = train_with_times(*policy, problem, {.steps = {12}, .learning_rate = kRate}, {1});
    EXPECT_LT(largest_difference(results[0].weights, serial_sgd(problem, 0, 12, kRate)), 1e-13);
    EXPECT_EQ(results[0].counts.staleness, std::vector<int64_t>{12});
  }
}

/// Serial reference: replicas act in the order of the times at which their steps begin (fetch, compute) and end (push).
struct DownpourReference {
  ToyProblem problem;
  std::vector<double> seconds;
  DownpourOptions options;
  std::function<double(int64_t)> rate = [](int64_t) { return kRate; };

  Vector run(int64_t steps) const {
    Vector w = problem.initial(), squares(w.size());
    std::vector<Vector> local(seconds.size(), w), gathered(seconds.size(), Vector(w.size()));
    const auto push = [&](int r, int64_t step) {
      for (size_t d = 0; d < w.size(); ++d) {
        double& g = gathered[size_t(r)][d];
        squares[d] += g * g;
        w[d] -= options.adagrad ? options.gamma * g / (std::sqrt(squares[d]) + options.epsilon) : rate(step) * g;
        g = 0;
      }
    };
    // A replica's step begins with its fetch when its last step has ended with its push.
    for (const ToyEvent& e : toy_events(seconds, steps)) {
      const auto r = size_t(e.replica);
      if (e.step > 0 && (e.step - 1) % options.push_every == 0) push(e.replica, e.step - 1);
      if (e.step % options.fetch_every == 0) local[r] = w;
      const Vector g = problem.gradient(e.replica, e.step, local[r]);
      for (size_t d = 0; d < w.size(); ++d) {
        gathered[r][d] += g[d];
        local[r][d] -= rate(e.step) * g[d];
      }
    }
    // The last pushes, in the order of the times at which the steps end.
    std::vector<std::pair<double, int>> ends;
    for (int r = 0; r < int(seconds.size()); ++r) ends.emplace_back(double(steps) * seconds[size_t(r)], r);
    std::sort(ends.begin(), ends.end());
    for (const auto& [time, r] : ends) push(r, steps - 1);
    return w;
  }
};

TEST(Downpour, FollowsTheReferenceShardedOrNot) {
  const ToyProblem problem{.seed = 42};
  for (const bool adagrad : {false, true})
    for (const auto& [fetch, push] : {std::pair(1, 1), std::pair(1, 3), std::pair(4, 2), std::pair(5, 5)})
      for (const int shards : {1, 3}) {
        // All steps end at different times, and the slowest replica ends last: no last push comes between two steps of
        // another replica.
        const DownpourOptions options{.shards = shards, .fetch_every = fetch, .push_every = push, .adagrad = adagrad};
        const DownpourReference reference{problem, {1, 1.01, 1.02}, options};
        auto policy = downpour(options, 3);
        const auto results =
            train_with_times(*policy, problem, {.steps = {9}, .learning_rate = kRate}, reference.seconds);
        for (const ToyResult& result : results)
          EXPECT_LT(largest_difference(result.weights, reference.run(9)), 1e-11)
              << adagrad << " " << fetch << " " << push << " " << shards;
      }
}

TEST(Downpour, EveryGradientReachesTheServer) {
  const ToyProblem problem{.seed = 43};
  for (const auto& [fetch, push] : {std::pair(1, 1), std::pair(3, 4), std::pair(7, 20)}) {
    auto policy = downpour({.shards = 2, .fetch_every = fetch, .push_every = push}, 4);
    ThreadWorld world(4, policy->server());
    const auto results = train_toy(world, *policy, problem, {.steps = {11}, .learning_rate = kRate});
    for (size_t d = 0; d < results[0].weights.size(); ++d) {
      double sum = 0;
      for (const ToyResult& result : results) sum += result.gradients[d];
      EXPECT_NEAR(results[0].weights[d], problem.initial()[d] - kRate * sum, 1e-11) << fetch << " " << push;
    }
  }
}

TEST(Downpour, GathersUnderALearningRateThatChanges) {
  const ToyProblem problem{.seed = 44};
  const auto schedule = [](int64_t k) { return kRate / double(1 + k); };
  auto policy = downpour({.fetch_every = 6, .push_every = 4, .adagrad = true}, 1);
  const auto results = train_with_times(*policy, problem, {.steps = {10}, .schedule = schedule}, {1});
  DownpourReference reference{problem, {1}, {.fetch_every = 6, .push_every = 4, .adagrad = true}, schedule};
  EXPECT_LT(largest_difference(results[0].weights, reference.run(10)), 1e-11);
}

TEST(Downpour, TheFirstStepOfAdagradHasTheSizeOfGamma) {
  const ToyProblem problem{.seed = 45};
  auto policy = downpour({.adagrad = true, .gamma = 0.25}, 1);
  const auto results = train_with_times(*policy, problem, {.steps = {1}, .learning_rate = kRate}, {1});
  for (size_t d = 0; d < results[0].weights.size(); ++d)
    EXPECT_NEAR(results[0].weights[d], problem.initial()[d] - 0.25 * (results[0].gradients[d] > 0 ? 1 : -1), 1e-6);
}

TEST(Downpour, StalenessOfEqualReplicasIsAllTheOthers) {
  const ToyProblem problem;
  auto policy = downpour({}, 4);
  const auto results = train_with_times(*policy, problem, {.steps = {10}, .learning_rate = kRate}, {1, 1, 1, 1});
  // Pushes and fetches come in the order of the replicas: replicas below have pushed since the fetch, those above push
  // between it and the next one.
  for (int r = 0; r < 4; ++r) {
    const auto& staleness = results[size_t(r)].counts.staleness;
    EXPECT_EQ(staleness.size(), 4u);
    EXPECT_GE(staleness[3], 9);
  }
}

TEST(Downpour, StalenessDoesNotCountOwnPushes) {
  const ToyProblem problem;
  for (const int shards : {1, 3}) {
    auto policy = downpour({.shards = shards, .fetch_every = 10}, 1);
    const auto results = train_with_times(*policy, problem, {.steps = {16}, .learning_rate = kRate}, {1});
    EXPECT_EQ(results[0].counts.staleness, std::vector<int64_t>{16});
  }
  // Replica 1 pushes 8 times as often. Between two fetches of replica 0 lie 4 of its own pushes; the k-th of them comes
  // after 8 k pushes of the other, within one.
  auto policy = downpour({.fetch_every = 4}, 2);
  const auto results = train_with_times(*policy, problem, {.steps = {4, 32}, .learning_rate = kRate}, {8, 1});
  const auto& staleness = results[0].counts.staleness;
  for (const size_t k : {1, 2, 3, 4}) {
    int64_t near = 0;
    for (size_t s = 8 * k - 1; s <= 8 * k + 1 && s < staleness.size(); ++s) near += staleness[s];
    EXPECT_EQ(near, 1) << k;
  }
}

TEST(Downpour, WarmStartIsReplicaZeroAlone) {
  const ToyProblem problem{.seed = 46};
  auto policy = downpour({.warm_start = 5}, 3);
  std::vector<double> first_step(3);
  Vector after_warm_start;
  ToyOptions options{.steps = {8, 3}, .learning_rate = kRate};
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy& replica, Hub& hub) {
    if (k == 0) first_step[size_t(r)] = hub.now();
    if (r == 0 && k == 4) after_warm_start = to_vector(replica.values_for_evaluation(state).weights);
  };
  train_with_times(*policy, problem, options, {1, 1, 1});
  EXPECT_LT(largest_difference(after_warm_start, serial_sgd(problem, 0, 5, kRate)), 1e-13);
  EXPECT_EQ(first_step, (std::vector<double>{1, 6, 6}));
}

TEST(Downpour, ASlowReplicaDelaysNoOtherAndAddsStaleness) {
  const ToyProblem problem;
  auto policy = downpour({}, 3);
  const auto results = train_with_times(*policy, problem, {.steps = {20, 20, 2}, .learning_rate = kRate}, {1, 1, 8});
  EXPECT_DOUBLE_EQ(results[0].seconds, 20);
  EXPECT_DOUBLE_EQ(results[2].seconds, 16);
  EXPECT_EQ(results[2].counts.staleness.size(), 17u) << "8 pushes of each of the two others";
}

// -- partial

TEST(Partial, WithAllReplicasIsTheMeanOfEachRound) {
  const ToyProblem problem{.seed = 51, .samples = {12, 8, 20}};
  auto policy = partial_average({}, 3);
  const auto results = train_with_times(*policy, problem, {.steps = {9, 6, 15}, .learning_rate = kRate}, {1, 2, 0.1});
  std::vector<Vector> w(3, problem.initial());
  for (int round = 0; round < 3; ++round) {
    Vector mean(w[0].size());
    for (int r = 0; r < 3; ++r) {
      for (int64_t k = 0; k < problem.steps_per_epoch(r); ++k) {
        const Vector g = problem.gradient(r, k, w[size_t(r)]);
        for (size_t d = 0; d < g.size(); ++d) w[size_t(r)][d] -= kRate * g[d];
      }
      for (size_t d = 0; d < mean.size(); ++d) mean[d] += w[size_t(r)][d] / 3;
    }
    w.assign(3, mean);
  }
  for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, w[0]), 1e-13);
  EXPECT_DOUBLE_EQ(results[2].counts.idle_seconds, 2 * (4 - 0.5) + (4 - 0.5)) << "all wait for the slowest";
}

TEST(Partial, AQuorumDoesNotWaitForTheRest) {
  const ToyProblem problem;  // 3 steps per epoch
  auto policy = partial_average({.quorum = 2}, 3);
  const auto results = train_with_times(*policy, problem, {.steps = {12, 12, 3}, .learning_rate = kRate}, {1, 1, 4});
  EXPECT_DOUBLE_EQ(results[0].seconds, 12);
  EXPECT_DOUBLE_EQ(results[1].seconds, 12);
  EXPECT_EQ(results[0].weights, results[2].weights);
}

TEST(Partial, OnesThatLeaveEarlyAreNotWaitedFor) {
  const ToyProblem problem;
  auto policy = partial_average({}, 3);
  ThreadWorld world(3, policy->server());
  const auto results = train_toy(world, *policy, problem, {.steps = {9, 3, 6}, .learning_rate = kRate});
  EXPECT_EQ(results[0].steps, 9);
  EXPECT_EQ(results[0].weights, results[1].weights);
}

// -- shat (a reconstruction)

TEST(Shat, WithoutHeterogeneityAndWithItsPullIsEasgd) {
  const ToyProblem problem{.seed = 61};
  const ToyOptions toy{.steps = {13}, .learning_rate = kRate, .momentum = 0.5};
  auto elastic = easgd({.period = 2}, 3), scaled = shat({.period = 2, .pull = 0.9 / 3, .heterogeneity = 0}, 3);
  EXPECT_LT(largest_difference(train_with_times(*elastic, problem, toy, {1, 1.7, 4})[0].weights,
                               train_with_times(*scaled, problem, toy, {1, 1.7, 4})[0].weights),
            1e-13);
}

TEST(Shat, EqualSpeedsHaveTheFactorsOfEasgd) {
  const ToyProblem problem{.seed = 62};
  const ToyOptions toy{.steps = {13}, .learning_rate = kRate};
  auto elastic = easgd({.period = 2}, 3), scaled = shat({.period = 2, .pull = 0.9 / 3, .heterogeneity = 1}, 3);
  EXPECT_LT(largest_difference(train_with_times(*elastic, problem, toy, {1, 1, 1})[0].weights,
                               train_with_times(*scaled, problem, toy, {1, 1, 1})[0].weights),
            1e-13);
}

/// Mean distance of the replicas' weights from the server's over their steps; one replica is five times slower.
double spread(UpdatePolicy& policy, uint64_t seed) {
  const ToyProblem problem{.seed = seed, .samples = {20}};
  double sum = 0;
  int64_t steps = 0;
  ToyOptions toy{.steps = {50, 50, 50, 10}, .learning_rate = kRate};
  toy.watch = [&](int, int64_t, ReplicaState& state, ReplicaPolicy& replica, Hub&) {
    const Vector own = to_vector(state.weights), centre = to_vector(replica.values_for_evaluation(state).weights);
    double squares = 0;
    for (size_t d = 0; d < own.size(); ++d) squares += std::pow(own[d] - centre[d], 2);
    sum += std::sqrt(squares);
    ++steps;
  };
  train_with_times(policy, problem, toy, {1, 1, 1, 5});
  return sum / double(steps);
}

TEST(Shat, ReplicasDifferLessThanUnderThePlainAsynchronousServerAndEasgd) {
  constexpr int64_t kApart = 4;  // steps between exchanges; with fewer the plain server's replicas are nearer
  for (const uint64_t seed : {63, 64, 65}) {
    auto plain = downpour({.fetch_every = kApart, .push_every = kApart}, 4);
    auto elastic = easgd({.period = kApart}, 4);
    auto scaled = shat({.period = kApart}, 4);
    const double of_scaled = spread(*scaled, seed);
    EXPECT_LT(of_scaled, spread(*plain, seed)) << "seed " << seed;
    EXPECT_LT(of_scaled, spread(*elastic, seed)) << "seed " << seed;
  }
}

TEST(Shat, ASlowReplicaDelaysNoOther) {
  const ToyProblem problem;
  auto policy = shat({.period = 1}, 3);
  const auto results = train_with_times(*policy, problem, {.steps = {10}, .learning_rate = kRate}, {1, 40, 1});
  EXPECT_DOUBLE_EQ(results[0].seconds, 10);
  EXPECT_DOUBLE_EQ(results[2].seconds, 10);
}

}  // namespace
}  // namespace trireme
