// Federated averaging, its proximal and adaptive forms, and the rounds of clients.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../base/expect_error.h"
#include "toy.h"
#include "toy_clients.h"
#include "update/diloco.h"
#include "update/federated.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "update/local_sgd.h"
#include "update/registry.h"
#include "worlds.h"

namespace trireme {
namespace {

/// Serial FedAvg in double in which all of `selected(round)` answer; optionally with the proximal term.
Vector reference(const ToyProblem& problem, int64_t rounds, int64_t epochs,
                 const std::function<std::vector<int>(int64_t)>& selected, double mu = 0) {
  Vector model = problem.initial();
  for (int64_t t = 0; t < rounds; ++t) {
    Vector mean(model.size());
    double n = 0;
    for (const int client : selected(t)) {
      Vector w = model;
      for (int64_t k = 0; k < epochs * problem.steps_per_epoch(client); ++k) {
        Vector g = problem.gradient(client, k, w);
        for (size_t d = 0; d < w.size(); ++d) g[d] += mu * (w[d] - model[d]);
        for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d];
      }
      n += double(problem.samples_of(client));
      for (size_t d = 0; d < w.size(); ++d) mean[d] += double(problem.samples_of(client)) * w[d];
    }
    for (size_t d = 0; d < model.size(); ++d) model[d] = mean[d] / n;
  }
  return model;
}

std::vector<int> all_of(int n) {
  std::vector<int> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(FedAvg, FollowsTheReferenceWithSampledClients) {
  const ToyProblem problem{.seed = 71, .samples = {12, 3, 20, 8, 5}};
  for (const double fraction : {1.0, 0.4, 0.0}) {
    const RoundOptions rounds{.clients = 5, .rounds = 6, .fraction = fraction, .seed = 72};
    auto policy = federated({.rounds = rounds, .local = {2, Length::Unit::epochs}});
    const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2, 3, 0.5, 0.7});
    const FederatedRounds same(rounds);
    const Vector model = reference(problem, 6, 2, [&](int64_t t) { return same.selection(t); });
    for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, model), 1e-12) << fraction;
    EXPECT_EQ(same.selection(0).size(), fraction == 0 ? 1u : size_t(std::llround(5 * fraction)));
    EXPECT_EQ(policy->rounds().size(), 6u);
    for (const RoundRecord& record : policy->rounds()) EXPECT_EQ(record.answered, record.selected);
  }
}

TEST(FedAvg, OneFullBatchStepOfAllIsGradientDescent) {
  const ToyProblem problem{.seed = 73, .samples = {3, 10, 17}, .batch = 20};
  auto policy = federated({.rounds = {.clients = 3, .rounds = 5}});
  const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 1, 1});
  Vector w = problem.initial();
  for (int t = 0; t < 5; ++t) {
    Vector g(w.size());
    for (int r = 0; r < 3; ++r)
      for (int64_t i = 0; i < problem.samples_of(r); ++i) problem.add_gradient(r, i, w, g);
    for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d] / 30;
  }
  EXPECT_LT(largest_difference(results[0].weights, w), 1e-12);
}

TEST(FedAvg, IsLocalSgdAndDilocoWhereAllTakePart) {
  const ToyProblem problem{.seed = 74, .samples = {12}};
  const FixedTimes times({1});
  auto fed = federated({.rounds = {.clients = 4, .rounds = 3}});
  const Vector averaged = train_clients(*fed, problem, {.learning_rate = kRate}, {1, 1, 1, 1})[0].weights;
  const ToyOptions toy{.steps = {9}, .learning_rate = kRate};
  for (auto& policy : {local_sgd({}), diloco({.every = 3, .outer_learning_rate = 1, .outer_momentum = 0})}) {
    VirtualWorld world(4, times);
    EXPECT_LT(largest_difference(train_toy(world, *policy, problem, toy)[0].weights, averaged), 1e-13);
  }
}

TEST(FedAvg, ThreadsFollowTheSameRounds) {
  const ToyProblem problem{.seed = 75, .samples = {12, 7}};
  const RoundOptions rounds{.clients = 4, .rounds = 8, .fraction = 0.5, .seed = 76};
  auto policy = federated({.rounds = rounds});
  ThreadWorld world(4, policy->server());
  const auto results = train_toy(world, *policy, problem, {.steps = {kMoreThanEnough}, .learning_rate = kRate});
  const FederatedRounds same(rounds);
  EXPECT_LT(
      largest_difference(results[3].weights, reference(problem, 8, 1, [&](int64_t t) { return same.selection(t); })),
      1e-12);
}

TEST(FedProx, WithoutMuIsFedAvgAndWithItFollowsTheReference) {
  const ToyProblem problem{.seed = 77, .samples = {12, 20}};
  const auto trained = [&](double mu) {
    auto policy =
        federated({.rounds = {.clients = 2, .rounds = 4}, .local = {2, Length::Unit::epochs}, .proximal = mu});
    return train_clients(*policy, problem, {.learning_rate = kRate}, {1, 1})[0].weights;
  };
  for (const double mu : {0.0, 0.5, 4.0})
    EXPECT_LT(largest_difference(trained(mu), reference(
                                                  problem, 4, 2, [](int64_t) { return all_of(2); }, mu)),
              1e-12)
        << mu;
  // A larger mu keeps the weights nearer to the round's first weights.
  EXPECT_LT(largest_difference(trained(10), problem.initial()), largest_difference(trained(0), problem.initial()));
}

TEST(FedAdam, FollowsThePapersFormulas) {
  const ToyProblem problem{.seed = 78};
  using Kind = ServerOptimizerOptions::Kind;
  for (const Kind kind : {Kind::average, Kind::adagrad, Kind::adam, Kind::yogi}) {
    const ServerOptimizerOptions server{
        .kind = kind, .learning_rate = 0.3, .momentum = 0.6, .beta1 = 0.8, .beta2 = 0.9, .tau = 0.01};
    auto policy = federated({.rounds = {.clients = 2, .rounds = 5}, .server = server});
    const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2});
    Vector w = problem.initial(), m(w.size()), v(w.size(), 0.01 * 0.01);
    for (int t = 0; t < 5; ++t) {
      Vector update(w.size());
      for (int r = 0; r < 2; ++r) {
        Vector own = w;
        for (int64_t k = 0; k < 3; ++k) {
          const Vector g = problem.gradient(r, k, own);
          for (size_t d = 0; d < w.size(); ++d) own[d] -= kRate * g[d];
        }
        for (size_t d = 0; d < w.size(); ++d) update[d] += (own[d] - w[d]) / 2;
      }
      for (size_t d = 0; d < w.size(); ++d) {
        const double u = update[d], square = u * u;
        if (kind == Kind::average) {
          w[d] += 0.3 * (m[d] = 0.6 * m[d] + u);
          continue;
        }
        m[d] = 0.8 * m[d] + 0.2 * u;
        if (kind == Kind::adagrad) v[d] += square;
        if (kind == Kind::adam) v[d] = 0.9 * v[d] + 0.1 * square;
        if (kind == Kind::yogi) v[d] -= 0.1 * square * (v[d] > square ? 1 : v[d] < square ? -1 : 0);
        w[d] += 0.3 * m[d] / (std::sqrt(v[d]) + 0.01);
      }
    }
    EXPECT_LT(largest_difference(results[0].weights, w), 1e-11) << int(kind);
  }
}

TEST(Federated, ABrokenClientDoesNotSpoilTheModel) {
  const ToyProblem problem{.seed = 79};
  auto policy = federated({.rounds = {.clients = 3, .rounds = 3}});
  ToyOptions options{.learning_rate = kRate};
  const auto poison = [](ReplicaState& state) { state.weights[0][0] = NAN; };
  // Makes a weight of client 1 NaN before each of its answers: `watch` is called after a step, here the one before the
  // last of the epoch.
  options.watch = [&](int r, int64_t k, ReplicaState& state, ReplicaPolicy&, Hub&) {
    if (r == 1 && k % 3 == 1) poison(state);
  };
  const auto results = train_clients(*policy, problem, options, {1, 1, 1});
  EXPECT_LT(largest_difference(results[0].weights, reference(problem, 3, 1,
                                                             [](int64_t) {
                                                               return std::vector{0, 2};
                                                             })),
            1e-12);
  for (const RoundRecord& record : policy->rounds()) {
    EXPECT_EQ(record.refused, 1);
    EXPECT_EQ(record.answered, 2);
    EXPECT_EQ(record.samples, 24);
  }
}

TEST(Federated, LargeUpdatesAreScaledDown) {
  const ToyProblem problem{.seed = 80};
  auto policy = federated({.rounds = {.clients = 1, .rounds = 1}, .clip_norm = 1e-3});
  const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1});
  const Vector start = problem.initial(), free = reference(problem, 1, 1, [](int64_t) { return std::vector{0}; });
  double norm = 0, free_norm = 0, product = 0;
  for (size_t d = 0; d < start.size(); ++d) {
    norm += std::pow(results[0].weights[d] - start[d], 2);
    free_norm += std::pow(free[d] - start[d], 2);
    product += (results[0].weights[d] - start[d]) * (free[d] - start[d]);
  }
  EXPECT_NEAR(std::sqrt(norm), 1e-3, 1e-12);
  EXPECT_NEAR(product, std::sqrt(norm * free_norm), 1e-9) << "in the same direction";
  EXPECT_EQ(policy->rounds()[0].clipped, 1);
}

TEST(Federated, RoundsEndWithoutLateClients) {
  const ToyProblem problem{.seed = 81};  // 3 steps per round
  auto policy = federated({.rounds = {.clients = 3, .rounds = 4, .timeout = 5}});
  const auto results =
      train_clients(*policy, problem, {.learning_rate = kRate}, {1, 1, 2.5});  // the slow client takes 7.5 s
  const auto rounds = policy->rounds();
  ASSERT_EQ(rounds.size(), 4u);
  // The slow client's first answer is late for rounds 0 and 1. At 7.5 s it begins with the weights of round 1 and is
  // late again.
  for (size_t t = 0; t < 4; ++t) {
    EXPECT_EQ(rounds[t].answered, 2) << t;
    EXPECT_DOUBLE_EQ(rounds[t].seconds, 5.0 * double(t + 1));
  }
  EXPECT_GE(rounds[1].late + rounds[2].late + rounds[3].late, 2);
  EXPECT_LT(largest_difference(results[0].weights, reference(problem, 4, 1,
                                                             [](int64_t) {
                                                               return std::vector{0, 1};
                                                             })),
            1e-12);
}

TEST(Federated, ClientsThatDropOutAreNotCounted) {
  const ToyProblem problem{.seed = 82, .samples = {12, 8, 20, 4}};
  const FederatedOptions options{.rounds = {.clients = 4, .rounds = 10, .timeout = 50, .seed = 83}, .dropout = 0.4};
  auto policy = federated(options);
  const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 1, 1, 1});
  int answered = 0;
  for (const RoundRecord& record : policy->rounds()) {
    answered += record.answered;
    EXPECT_EQ(record.late, 0);
  }
  EXPECT_GT(answered, 10) << "seed 83";
  EXPECT_LT(answered, 36) << "seed 83";
  for (const double w : results[0].weights) EXPECT_TRUE(std::isfinite(w));
  EXPECT_EQ(results[0].weights, results[3].weights);
}

TEST(Federated, RoundsAreReportedAsTheyEnd) {
  const ToyProblem problem{.seed = 84};
  auto policy = federated({.rounds = {.clients = 2, .rounds = 3}});
  std::vector<Vector> models;
  policy->on_round = [&](const RoundRecord& record, const ModelValues& values) {
    EXPECT_EQ(record.round, int64_t(models.size()));
    models.push_back(to_vector(values.weights));
  };
  train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2});
  ASSERT_EQ(models.size(), 3u);
  for (int64_t t = 0; t < 3; ++t)
    EXPECT_LT(largest_difference(models[size_t(t)], reference(problem, t + 1, 1, [](int64_t) { return all_of(2); })),
              1e-12);
}

TEST(Federated, StopsWithTheOpenRound) {
  const ToyProblem problem{.seed = 87};
  auto policy = federated({.rounds = {.clients = 3, .rounds = 50, .fraction = 0.7}});
  policy->on_round = [&](const RoundRecord& record, const ModelValues&) {
    if (record.round == 3) policy->stop();  // the round that ends now
  };
  train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2, 3});
  EXPECT_EQ(policy->rounds().size(), 4u);
}

TEST(Federated, TwoHundredAndFiftySixClientsTakeTurns) {
  const ToyProblem problem{.seed = 85, .samples = {4}};
  auto policy = federated({.rounds = {.clients = 256, .rounds = 5, .fraction = 0.1, .seed = 86}});
  const auto results =
      train_clients(*policy, problem, {.learning_rate = kRate, .dtype = at::kFloat}, std::vector<double>(256, 1.0));
  EXPECT_EQ(policy->rounds().back().answered, 26);
  EXPECT_DOUBLE_EQ(policy->rounds().back().seconds, 5);
  EXPECT_EQ(results[0].weights, results[255].weights);
}

TEST(FederatedRounds, SelectionIsAFunctionOfSeedAndRound) {
  const RoundOptions options{.clients = 50, .rounds = 9, .fraction = 0.2, .seed = 5};
  const FederatedRounds rounds(options), same(options);
  std::vector<int> often(50, 0);
  for (int64_t t = 0; t < 400; ++t) {
    EXPECT_EQ(rounds.selection(t), same.selection(t));
    EXPECT_EQ(rounds.selection(t).size(), 10u);
    for (const int client : rounds.selection(t)) ++often[size_t(client)];
  }
  for (const int count : often) EXPECT_NEAR(count, 80, 40) << "seed 5";
}

TEST(FederatedRounds, OnesThatLeaveAreNotAwaited) {
  FederatedRounds rounds({.clients = 3, .rounds = 2});
  rounds.begin(0);
  rounds.leave(1);
  rounds.leave(1);
  EXPECT_TRUE(rounds.answer(0, 0));
  EXPECT_FALSE(rounds.answer(0, 0)) << "twice";
  EXPECT_FALSE(rounds.is_complete(1));
  rounds.leave(2);
  EXPECT_TRUE(rounds.is_complete(1));
  rounds.next(1);
  EXPECT_FALSE(rounds.may_begin(1));
  EXPECT_TRUE(rounds.may_begin(0));
  EXPECT_FALSE(rounds.is_over());
  rounds.leave(0);
  EXPECT_TRUE(rounds.is_over());
}

/// A run that ended before its rounds were made, and whose clients have left, goes on with the next round and with all
/// clients.
TEST(FederatedRounds, GoOnAfterTheyWereStopped) {
  const RoundOptions options{.clients = 2, .rounds = 5};
  FederatedRounds rounds(options);
  for (const int client : {0, 1}) {
    rounds.begin(client);
    EXPECT_TRUE(rounds.answer(client, 0));
  }
  rounds.stop();
  for (const int client : {0, 1}) rounds.leave(client);
  PolicyState saved;
  StateFields out(saved);
  rounds.fields(out, 3);
  std::vector<RoundRecord> over = {rounds.record()};
  record_fields(out, kRecordsOver, over);
  out.done();
  const std::optional<SavedRounds> told = saved_rounds(saved);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->over, 1);
  EXPECT_TRUE(told->has_ended);
  EXPECT_FALSE(saved_rounds(PolicyState()));

  FederatedRounds again(options);
  StateFields in(saved, "a state");
  again.fields(in, 0);
  EXPECT_TRUE(again.is_over());
  again.reopen(0);
  EXPECT_FALSE(again.is_over());
  EXPECT_EQ(again.round(), 1);
  EXPECT_TRUE(again.may_begin(0) && again.may_begin(1));
  EXPECT_FALSE(again.is_complete(1));
}

TEST(FederatedRounds, LostClientsMayReturn) {
  FederatedRounds rounds({.clients = 2, .rounds = 5});
  rounds.begin(0);
  rounds.begin(1);
  rounds.lose(1);
  rounds.lose(1);
  EXPECT_FALSE(rounds.answer(1, 0)) << "it was lost in between";
  EXPECT_FALSE(rounds.is_complete(1));
  EXPECT_TRUE(rounds.answer(0, 0));
  EXPECT_TRUE(rounds.is_complete(1));
  rounds.next(1);
  EXPECT_EQ(rounds.record().selected, 1);
  rounds.readmit(1, 2);
  EXPECT_FALSE(rounds.may_begin(1)) << "the round goes on without it";
  rounds.begin(0);
  rounds.lose(0);
  EXPECT_TRUE(rounds.is_complete(2)) << "the one that is back is there for the next round";
  rounds.next(2);
  EXPECT_TRUE(rounds.may_begin(1));
  rounds.lose(1);
  EXPECT_FALSE(rounds.is_complete(1e9)) << "no client is present";
  EXPECT_FALSE(rounds.is_over());
  rounds.readmit(0, 3);
  EXPECT_EQ(rounds.round(), 2);
  EXPECT_TRUE(rounds.may_begin(0));
  rounds.leave(1);
  rounds.readmit(1, 4);
  EXPECT_FALSE(rounds.is_over());
  rounds.leave(0);
  EXPECT_TRUE(rounds.is_over());
}

TEST(ReplicaState, TakesValuesThatAreCutOtherwise) {
  ReplicaState state = toy_state(Vector(11));
  const at::Tensor all = at::arange(11, at::kDouble);
  write_values({.weights = {all.narrow(0, 0, 3), all.narrow(0, 3, 6), at::empty({0}, at::kDouble), all.narrow(0, 9, 2)},
                .statistics = {}},
               state);
  const Vector written = to_vector(state.weights);
  for (size_t i = 0; i < 11; ++i) EXPECT_EQ(written[i], double(i));
}

TEST(Federated, SaysWhatIsWrong) {
  const auto expect = [](const std::vector<std::string>& parts, const std::string& text) {
    expect_error(Blame::user, parts,
                 [&] { make_update_policy(ConfigTable::from_string(text, "e.toml"), {.replicas = 4}); });
  };
  expect({"e.toml", "fraction"}, "policy = \"fedavg\"\nfraction = 1.5");
  expect({"dropout", "round_timeout"}, "policy = \"fedavg\"\ndropout = 0.5");
  expect({"tau"}, "policy = \"fedadam\"\ntau = 0.0");
  expect({"aggregate", "mean, median, trimmed-mean, krum"}, "policy = \"fedavg\"\naggregate = \"mode\"");
  expect({"trim", "less than 0.5"}, "policy = \"fedavg\"\naggregate = \"trimmed-mean\"\ntrim = 0.5");
  expect({"byzantine", "Krum needs 5"}, "policy = \"fedavg\"\naggregate = \"krum\"");
  expect({"fednova", "SGD without momentum"}, "policy = \"fednova\"");
  expect({"scaffold", "SGD without momentum"}, "policy = \"scaffold\"");
  expect({"server_optimizer", "adam, adagrad, yogi"}, "policy = \"fedadam\"\nserver_optimizer = \"lamb\"");
}

}  // namespace
}  // namespace trireme
