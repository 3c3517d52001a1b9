// Federated clients that keep some parameters for themselves (FedBN, FedPer), compared with a serial reference.
#include "update/local_parts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "../base/expect_error.h"
#include "toy.h"
#include "toy_clients.h"
#include "trireme/config.h"
#include "update/federated.h"
#include "update/hub/thread_world.h"
#include "update/registry.h"
#include "worlds.h"

namespace trireme {
namespace {

constexpr int64_t kStepsOfRound = 3;

/// What clients and server hold after some rounds.
struct KeptReference {
  Vector shared;            ///< whole vectors; only the shared elements mean something
  std::vector<Vector> own;  ///< by client; only the local elements mean something

  Vector model_of(size_t client) const {
    Vector model = shared;
    for (size_t d = 0; d < model.size(); ++d)
      if (is_toy_local(d)) model[d] = own[client][d];
    return model;
  }
  Vector mean() const {
    Vector model = shared;
    for (size_t d = 0; d < model.size(); ++d) {
      if (!is_toy_local(d)) continue;
      model[d] = 0;
      for (const Vector& one : own) model[d] += one[d] / double(own.size());
    }
    return model;
  }
};

/// Rounds of one epoch in double, in which the clients of `answer(round)` answer. FedProx's term holds shared weights
/// only.
KeptReference kept_reference(const ToyProblem& problem, int clients, int64_t rounds,
                             const std::function<std::vector<int>(int64_t)>& answer, double mu = 0) {
  KeptReference r{problem.initial(), std::vector<Vector>(size_t(clients), problem.initial())};
  for (int64_t t = 0; t < rounds; ++t) {
    Vector sum(r.shared.size());
    double n = 0;
    for (const int client : answer(t)) {
      Vector w = r.model_of(size_t(client));
      for (int64_t k = 0; k < problem.steps_per_epoch(client); ++k) {
        const Vector g = problem.gradient(client, k, w);
        for (size_t d = 0; d < w.size(); ++d)
          w[d] -= kRate * (g[d] + (is_toy_local(d) ? 0 : mu * (w[d] - r.shared[d])));
      }
      const auto samples = double(problem.samples_of(client));
      n += samples;
      for (size_t d = 0; d < w.size(); ++d) sum[d] += samples * w[d];
      r.own[size_t(client)] = w;
    }
    for (size_t d = 0; d < r.shared.size(); ++d) r.shared[d] = sum[d] / n;
  }
  return r;
}

std::unique_ptr<FederatedPolicy> with_local(FederatedOptions options, bool has_statistics = false) {
  options.local_parameters = {"batch-norm"};
  auto policy = federated(options);
  policy->set_local(toy_local_parts(has_statistics));
  return policy;
}

void expect_models(const FederatedPolicy& policy, const KeptReference& wanted) {
  const std::map<int, ModelValues> own = policy.own_models();
  ASSERT_EQ(own.size(), wanted.own.size());
  for (const auto& [client, values] : own)
    EXPECT_LT(largest_difference(to_vector(values.weights), wanted.model_of(size_t(client))), 1e-12) << client;
}

TEST(LocalParameters, StayWithTheirClientsAndTheOthersAreAveraged) {
  const ToyProblem problem{.seed = 171, .samples = {12, 20}};
  for (const double mu : {0.0, 2.0}) {
    auto policy = with_local({.rounds = {.clients = 2, .rounds = 1}, .proximal = mu});
    const auto both = [](int64_t) { return std::vector{0, 1}; };
    auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 1.5});
    const KeptReference one = kept_reference(problem, 2, 1, both, mu);
    expect_models(*policy, one);
    for (const size_t d : {size_t(2), size_t(3), size_t(9), size_t(10)})
      EXPECT_GT(std::abs(one.own[0][d] - one.own[1][d]), 1e-6) << "local weights differ between clients";
    for (const ToyResult& result : results)
      EXPECT_LT(largest_difference(result.weights, one.mean()), 1e-12) << "the result has the mean of both";
    policy = with_local({.rounds = {.clients = 2, .rounds = 5}, .proximal = mu});
    train_clients(*policy, problem, {.learning_rate = kRate}, {1, 1.5});
    expect_models(*policy, kept_reference(problem, 2, 5, both, mu));
  }
}

TEST(LocalParameters, FollowTheReferenceOnThreadsWithSampledClients) {
  const ToyProblem problem{.seed = 172, .samples = {12, 7}};
  const RoundOptions rounds{.clients = 4, .rounds = 8, .fraction = 0.5, .seed = 173};
  auto policy = with_local({.rounds = rounds});
  ThreadWorld world(4, policy->server());
  const auto results = train_toy(world, *policy, problem, {.steps = {kMoreThanEnough}, .learning_rate = kRate});
  const FederatedRounds same(rounds);
  const KeptReference wanted = kept_reference(problem, 4, 8, [&](int64_t t) { return same.selection(t); });
  expect_models(*policy, wanted);
  EXPECT_LT(largest_difference(results[3].weights, wanted.mean()), 1e-12);
}

TEST(LocalParameters, AreNotCountedAsSent) {
  const ToyProblem problem{.seed = 174};
  const RoundOptions rounds{.clients = 2, .rounds = 3};
  const auto sent = [&](FederatedPolicy& policy) {
    ToyOptions options{.learning_rate = kRate};
    options.statistics = [](int) {
      return std::vector<RunningStatistics>{{at::zeros({3}, at::kDouble), at::ones({3}, at::kDouble)}};
    };
    return train_clients(policy, problem, options, {1, 1})[0].counts.bytes_sent;
  };
  EXPECT_EQ(sent(*federated({.rounds = rounds})), 3 * (11 + 6) * 8);
  EXPECT_EQ(sent(*with_local({.rounds = rounds}, /*has_statistics=*/true)), 3 * 7 * 8);
}

TEST(LocalParameters, RunningStatisticsStayAndTheResultHasThoseOfAll) {
  const ToyProblem problem{.seed = 175};
  auto policy = with_local({.rounds = {.clients = 2, .rounds = 2}}, /*has_statistics=*/true);
  ToyOptions options{.learning_rate = kRate};
  options.statistics = [](int r) {
    return std::vector<RunningStatistics>{{at::full({1}, 2.0 * r, at::kDouble), at::full({1}, 1.0 + r, at::kDouble)}};
  };
  const auto results = train_clients(*policy, problem, options, {1, 1});
  const std::map<int, ModelValues> own = policy->own_models();
  for (const int r : {0, 1}) {
    EXPECT_EQ(own.at(r).statistics[0].mean.item<double>(), 2.0 * r);
    EXPECT_EQ(own.at(r).statistics[0].variance.item<double>(), 1.0 + r);
    EXPECT_NEAR(results[size_t(r)].statistics[0].mean.item<double>(), 1, 1e-12);
    EXPECT_NEAR(results[size_t(r)].statistics[0].variance.item<double>(), 1.5 + 1, 1e-12) << "of both together";
  }
}

TEST(LocalParameters, ThatAreNotFiniteReturnToThoseOfTheLastRound) {
  const ToyProblem problem{.seed = 176};
  auto policy = with_local({.rounds = {.clients = 2, .rounds = 4}});
  ToyOptions options{.learning_rate = kRate};
  // Before the last step of its second round: the step spreads it to all weights.
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy&, Hub&) {
    if (r == 1 && k == 2 * kStepsOfRound - 2) state.weights[0][3] = std::numeric_limits<double>::quiet_NaN();
  };
  train_clients(*policy, problem, options, {1, 1});
  expect_models(*policy, kept_reference(problem, 2, 4, [](int64_t t) {
    return t == 1 ? std::vector{0} : std::vector{0, 1};
  }));
  const std::vector<RoundRecord> rounds = policy->rounds();
  ASSERT_EQ(rounds.size(), 4u);
  for (const RoundRecord& record : rounds) EXPECT_EQ(record.refused, record.round == 1 ? 1 : 0) << record.round;
}

TEST(LocalParameters, ClientsGetTheirOwnBackFromAServerThatGoesOn) {
  const ToyProblem problem{.seed = 177};
  const FederatedOptions options{.rounds = {.clients = 2, .rounds = 6}};
  auto first = with_local(options);
  ToyCheckpoint checkpoint;
  std::atomic<bool> stopping = false;
  first->on_round = [&](const RoundRecord& record, const ModelValues&) {
    if (record.round != 1) return;
    first->hold();
    stopping = true;
  };
  ToyOptions toy{.steps = {kMoreThanEnough}, .learning_rate = kRate};
  toy.stops = [&](int, int64_t) { return stopping.load(); };
  toy.checkpoint = &checkpoint;
  ThreadWorld world(2, first->server());
  train_toy(world, *first, problem, toy);
  const KeptReference wanted = kept_reference(problem, 2, 2, [](int64_t) { return std::vector{0, 1}; });

  auto second = with_local(options);
  second->resume(checkpoint.policy, 0);
  ThreadWorld other(2, second->server());
  std::vector<Vector> begun(2);
  run_replicas(other, [&](Hub& hub) {
    ReplicaState state = toy_state(problem.initial());  // nothing of the earlier run is left here
    const auto client = second->for_replica(hub);
    client->begin(state);
    begun[size_t(hub.replica())] = to_vector(state.weights);
    client->finish(state);
  });
  for (const size_t r : {size_t(0), size_t(1)}) EXPECT_LT(largest_difference(begun[r], wanted.model_of(r)), 1e-12) << r;
  EXPECT_LT(largest_difference(to_vector(second->server()->values()->weights), wanted.mean()), 1e-12);
}

TEST(LocalParameters, InvalidOnesAreRefused) {
  const ToyProblem problem{.seed = 178};
  const FederatedOptions options{.rounds = {.clients = 1, .rounds = 1}};
  const auto send = [&](std::vector<at::Tensor> tensors) {
    auto policy = with_local(options);
    ThreadWorld world(1, policy->server());
    run_replicas(world, [&](Hub& hub) {
      ReplicaState state = toy_state(problem.initial());
      const auto client = policy->for_replica(hub);
      client->begin(state);
      hub.visit(0, {.operation = 100, .tensors = std::move(tensors)});
    });
  };
  const at::Tensor two = at::zeros({2}, at::kDouble);
  send({two, two});
  expect_error(Blame::run, {"replica 0", "missing"}, [&] { send({two}); });
  expect_error(Blame::run, {"replica 0", "shapes"}, [&] { send({two, at::zeros({3}, at::kDouble)}); });
  expect_error(Blame::run, {"replica 0", "shapes"}, [&] { send({two, at::zeros({2}, at::kFloat)}); });
  expect_error(Blame::run, {"replica 0", "statistics"}, [&] { send({two, two, two}); });
}

TEST(LocalParameters, AreReadFromTheKeys) {
  const auto made = [](const std::string& keys) {
    return make_update_policy(ConfigTable::from_string("policy = \"fedavg\"\n" + keys), {.replicas = 2});
  };
  EXPECT_TRUE(made("")->local_parameters().empty());
  const auto policy = made("local_parameters = \"batch-norm fc.*\"");
  EXPECT_EQ(policy->local_parameters(), (std::vector<std::string>{"batch-norm", "fc.*"}));
  EXPECT_NE(policy->description(), made("")->description()) << "a checkpoint of one is not resumed under the other";
  expect_error(Blame::user, {"local_parameters", "a * is allowed only at the end"},
               [&] { made("local_parameters = \"*.bias\""); });
  expect_error(Blame::user, {"local_parameters", "noise"},
               [&] { made("local_parameters = \"batch-norm\"\nclip_norm = 1\nnoise = 1"); });
}

}  // namespace
}  // namespace trireme
