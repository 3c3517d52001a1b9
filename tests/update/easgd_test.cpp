// EASGD and EAMSGD: invariants of the exchange, serial references, and how the registry reads policies.
#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/easgd.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/registry.h"
#include "virtual_toy.h"
#include "worlds.h"

namespace trireme {
namespace {

/// One replica with given weights: weights and centre before and after the exchange before step 0.
struct Exchange {
  Vector weights, centre, weights_after, centre_after;
};
Exchange exchange_once(const EasgdOptions& options, const Vector& centre, const Vector& weights) {
  Exchange seen;
  auto policy = easgd(options, 1);
  const FixedTimes times({1});
  VirtualWorld world(1, times, {}, policy->server());
  run_replicas(world, [&](Hub& hub) {
    ReplicaState state = toy_state(centre);
    auto replica = policy->for_replica(hub);
    replica->begin(state);
    from_vector(weights, state.weights);
    seen.weights = weights;
    seen.centre = to_vector(replica->values_for_evaluation(state).weights);
    EXPECT_TRUE(replica->before_step({.step = 0}, state).wrote);
    seen.weights_after = to_vector(state.weights);
    seen.centre_after = to_vector(replica->values_for_evaluation(state).weights);
    EXPECT_FALSE(replica->before_step({.step = 1}, state).wrote) << "not due";
  });
  return seen;
}

TEST(Easgd, AnExchangeKeepsTheSumOfReplicaAndCentre) {
  for (const double alpha : {0.0, 0.1, 0.45, 1.0})
    for (const int shards : {1, 2, 5, 20}) {  // also more shards than elements
      const Vector centre = ToyProblem{.seed = 1}.initial(), weights = ToyProblem{.seed = 2}.initial();
      const Exchange seen = exchange_once({.beta = alpha, .shards = shards}, centre, weights);
      EXPECT_EQ(seen.centre, centre);
      for (size_t d = 0; d < centre.size(); ++d) {
        EXPECT_NEAR(seen.weights_after[d] + seen.centre_after[d], weights[d] + centre[d], 1e-14);
        EXPECT_NEAR(seen.weights_after[d], weights[d] - alpha * (weights[d] - centre[d]), 1e-14) << "both from before";
      }
    }
}

TEST(Easgd, AlphaOneExchangesReplicaAndCentre) {
  const Vector centre = {1, 2, 3, 4, 5, -6}, weights = {-7, 0, 2, 9, 1, 1};
  const Exchange seen = exchange_once({.beta = 1}, centre, weights);
  EXPECT_EQ(seen.weights_after, centre);
  EXPECT_EQ(seen.centre_after, weights);
}

TEST(Easgd, AlphaZeroIsIndependentSgd) {
  const ToyProblem problem{.seed = 3};
  auto policy = easgd({.period = 2, .beta = 0}, 3);
  std::vector<Vector> own(3);
  ToyOptions options{.steps = {9}, .learning_rate = kRate, .momentum = 0.7};
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy&, Hub&) {
    if (k == 8) own[size_t(r)] = to_vector(state.weights);
  };
  const auto results = train_with_times(*policy, problem, options, {1, 2, 3});
  for (int r = 0; r < 3; ++r) EXPECT_EQ(own[size_t(r)], serial_sgd(problem, r, 9, kRate, 0.7));
  EXPECT_EQ(results[0].weights, problem.initial()) << "the centre, which no replica has moved";
}

TEST(Easgd, EqualReplicasAreAFixedPoint) {
  const ToyProblem problem{.seed = 4};
  auto policy = easgd({.period = 1}, 4);
  for (const ToyResult& result : train_with_times(*policy, problem, {.steps = {5}, .learning_rate = 0}, {1, 2, 3, 4}))
    EXPECT_EQ(result.weights, problem.initial());
}

/// Serial reference: steps of replicas with these speeds, in the order in which they begin.
Vector reference_centre(const ToyProblem& problem, const std::vector<double>& seconds, int64_t steps, int64_t period,
                        double beta, double momentum) {
  const int n = int(seconds.size());
  Vector centre = problem.initial();
  std::vector<Vector> x(size_t(n), centre), v(size_t(n), Vector(centre.size()));
  std::vector<int64_t> done(size_t(n), 0);
  const auto begin_of = [&](int r) { return double(done[size_t(r)]) * seconds[size_t(r)]; };
  for (int64_t event = 0; event < n * steps; ++event) {
    int r = -1;
    for (int q = 0; q < n; ++q)
      if (done[size_t(q)] < steps && (r < 0 || begin_of(q) < begin_of(r))) r = q;
    Vector &mine = x[size_t(r)], &speed = v[size_t(r)];
    if (done[size_t(r)] % period == 0)
      for (size_t d = 0; d < mine.size(); ++d) {
        const double distance = beta / n * (mine[d] - centre[d]);
        mine[d] -= distance;
        centre[d] += distance;
      }
    Vector ahead = mine;
    for (size_t d = 0; d < mine.size(); ++d) ahead[d] += momentum * speed[d];
    const Vector g = problem.gradient(r, done[size_t(r)]++, ahead);
    for (size_t d = 0; d < mine.size(); ++d) {
      speed[d] = momentum * speed[d] - kRate * g[d];
      mine[d] += speed[d];
    }
  }
  return centre;
}

TEST(Easgd, FollowsTheReferenceWithAndWithoutMomentum) {
  const ToyProblem problem{.seed = 5};
  const std::vector<double> seconds = {1, 1.3, 2.9};
  for (const double momentum : {0.0, 0.9})
    for (const int shards : {1, 3}) {
      auto policy = easgd({.period = 3, .momentum = momentum, .shards = shards}, 3);
      const auto results = train_with_times(*policy, problem, {.steps = {14}, .learning_rate = kRate}, seconds);
      const Vector centre = reference_centre(problem, seconds, 14, 3, 0.9, momentum);
      for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, centre), 1e-13);
      EXPECT_EQ(results[0].counts.bytes_sent, 5 * 11 * 8) << "at steps 0, 3, 6, 9, 12";
    }
}

TEST(Easgd, OneReplicaOfEamsgdWithoutPullIsNesterovsMomentum) {
  const ToyProblem problem{.seed = 6};
  auto policy = easgd({.beta = 0, .momentum = 0.8}, 1);
  Vector trained;
  ToyOptions options{.steps = {10}, .learning_rate = kRate};
  options.watch = [&](int, int64_t k, ReplicaState& state, ReplicaPolicy&, Hub&) {
    if (k == 9) trained = to_vector(state.weights);
  };
  train_with_times(*policy, problem, options, {1});
  Vector x = problem.initial(), v(x.size());
  for (int64_t k = 0; k < 10; ++k) {
    Vector ahead = x;
    for (size_t d = 0; d < x.size(); ++d) ahead[d] += 0.8 * v[d];
    const Vector g = problem.gradient(0, k, ahead);
    for (size_t d = 0; d < x.size(); ++d) x[d] += v[d] = 0.8 * v[d] - kRate * g[d];
  }
  EXPECT_LT(largest_difference(trained, x), 1e-13);
}

TEST(Easgd, ASlowReplicaDelaysNoOther) {
  const ToyProblem problem;
  auto policy = easgd({.period = 1}, 3);
  const auto results = train_with_times(*policy, problem, {.steps = {10}, .learning_rate = kRate}, {1, 40, 1});
  EXPECT_DOUBLE_EQ(results[0].seconds, 10);
  EXPECT_DOUBLE_EQ(results[2].seconds, 10);
}

TEST(Easgd, OnThreadsTheSumOfAllIsKept) {
  const ToyProblem problem{.seed = 7};
  auto policy = easgd({.period = 1, .shards = 2}, 3);
  ThreadWorld world(3, policy->server());
  std::vector<Vector> own(3), centre(3);
  ToyOptions options{.steps = {50}, .learning_rate = 0};  // only exchanges change the weights
  const std::vector<double> offsets = {1, -4, 9};
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy&, Hub&) {
    if (k == 0)
      for (at::Tensor& w : state.weights) w.add_(offsets[size_t(r)]);
    if (k == 49) own[size_t(r)] = to_vector(state.weights);
  };
  const auto results = train_toy(world, *policy, problem, options);
  for (size_t d = 0; d < own[0].size(); ++d)
    EXPECT_NEAR(own[0][d] + own[1][d] + own[2][d] + results[0].weights[d], 4 * problem.initial()[d] + 1 - 4 + 9, 1e-12);
}

// -- the registry

std::unique_ptr<UpdatePolicy> make(const std::string& text,
                                   const RunFacts& facts = {.replicas = 2, .plain_sgd = true}) {
  const ConfigTable table = ConfigTable::from_string(text, "e.toml");
  auto policy = make_update_policy(table, facts);
  table.finish();
  return policy;
}

TEST(UpdatePolicies, AreMadeByName) {
  for (const std::string& name : update_policy_names()) EXPECT_NE(make("policy = \"" + name + "\""), nullptr) << name;
  EXPECT_TRUE(make("policy = \"local-sgd\"\nevery = \"16 steps\"\nweights = \"samples\"\nmoments = \"averaged\"")
                  ->evaluates_together());
  EXPECT_EQ(make("policy = \"easgd\"\nshards = 3")->server()->shards(), 3);
}

TEST(UpdatePolicies, SayWhatIsWrong) {
  const auto expect = [](const std::vector<std::string>& parts, const std::string& text, const RunFacts& facts) {
    expect_error(Blame::user, parts, [&] { make(text, facts); });
  };
  const RunFacts plain{.replicas = 2, .plain_sgd = true}, adam{.replicas = 2, .plain_sgd = false};
  expect({"e.toml", "policy", "local-sgb", "local-sgd"}, "policy = \"local-sgb\"", plain);
  expect({"e.toml", "policy"}, "period = 4", plain);
  expect({"every", "0.5 epochs", "whole number"}, "policy = \"local-sgd\"\nevery = \"0.5 epochs\"", plain);
  expect({"moments", "averaged"}, "policy = \"async-average\"\nmoments = \"averaged\"", plain);
  expect({"beta"}, "policy = \"easgd\"\nbeta = 1.5", plain);
  expect({"period"}, "policy = \"easgd\"\nperiod = 0", plain);
  expect({"momentum"}, "policy = \"eamsgd\"\nmomentum = 1", plain);
  expect({"policy", "eamsgd", "SGD without any", "easgd"}, "policy = \"eamsgd\"", adam);
  expect({"post_local_after"}, "policy = \"easgd\"\npost_local_after = \"1 epochs\"", plain);
}

}  // namespace
}  // namespace trireme
