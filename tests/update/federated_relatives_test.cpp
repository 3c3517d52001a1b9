// FedNova, SCAFFOLD and means that withstand broken clients, beside references in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "toy_clients.h"
#include "update/hub/thread_world.h"

namespace trireme {
namespace {

constexpr int64_t kRounds = 6;

Vector sum(const Vector& a, const Vector& b, double factor) {
  Vector all = a;
  for (size_t d = 0; d < a.size(); ++d) all[d] += factor * b[d];
  return all;
}

/// FedNova with plain SGD: each client's change is divided by its number of steps, and the mean is multiplied by the
/// mean number of steps (Wang et al. 2020, equation 3 and its tau_eff).
Vector nova(const ToyProblem& problem, int clients, double server_rate) {
  Vector model = problem.initial();
  for (int64_t t = 0; t < kRounds; ++t) {
    Vector direction(model.size());
    double n = 0, steps = 0;
    for (int c = 0; c < clients; ++c) {
      const int64_t own = problem.steps_per_epoch(c);
      Vector w = model;
      for (int64_t k = 0; k < own; ++k) w = sum(w, problem.gradient(c, k, w), -kRate);
      const double samples = double(problem.samples_of(c));
      direction = sum(direction, sum(w, model, -1), samples / double(own));
      n += samples;
      steps += samples * double(own);
    }
    model = sum(model, direction, server_rate * steps / n / n);
  }
  return model;
}

TEST(FedNova, FollowsTheReference) {
  const ToyProblem problem{.seed = 81, .samples = {12, 3, 20, 8}};
  for (const double rate : {1.0, 0.5}) {
    auto policy = federated({.rounds = {.clients = 4, .rounds = kRounds},
                             .server = {.learning_rate = rate},
                             .aggregate = {.kind = AggregateOptions::Kind::normalized}});
    const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2, 3, 0.5});
    const Vector model = nova(problem, 4, rate);
    for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, model), 1e-12) << rate;
  }
}

TEST(FedNova, IsFedAvgWhereAllMakeAsManySteps) {
  const ToyProblem problem{.seed = 82, .samples = {8, 7, 8}};
  const FederatedOptions options{.rounds = {.clients = 3, .rounds = kRounds}};
  FederatedOptions normalized = options;
  normalized.aggregate.kind = AggregateOptions::Kind::normalized;
  auto nova = federated(normalized), average = federated(options);
  const auto one = train_clients(*nova, problem, {.learning_rate = kRate}, {1, 1, 1});
  const auto other = train_clients(*average, problem, {.learning_rate = kRate}, {1, 1, 1});
  EXPECT_LT(largest_difference(one[0].weights, other[0].weights), 1e-12);
}

/// SCAFFOLD, algorithm 1 with option II, in which `selected` clients of all take part.
Vector controlled(const ToyProblem& problem, int clients, const std::function<std::vector<int>(int64_t)>& selected) {
  Vector model = problem.initial(), common(model.size());
  std::vector<Vector> own(size_t(clients), Vector(model.size()));
  std::vector<int64_t> made(size_t(clients), 0);
  for (int64_t t = 0; t < kRounds; ++t) {
    Vector change(model.size()), shift(model.size());
    const std::vector<int> round = selected(t);
    for (const int c : round) {
      Vector w = model;
      const int64_t steps = problem.steps_per_epoch(c);
      for (int64_t k = 0; k < steps; ++k) {
        const Vector g = problem.gradient(c, made[size_t(c)]++, w);
        w = sum(sum(sum(w, g, -kRate), common, -kRate), own[size_t(c)], kRate);
      }
      const Vector next = sum(sum(own[size_t(c)], common, -1), sum(model, w, -1), 1 / (kRate * double(steps)));
      change = sum(change, sum(w, model, -1), 1 / double(round.size()));
      shift = sum(shift, sum(next, own[size_t(c)], -1), 1.0 / clients);
      own[size_t(c)] = next;
    }
    model = sum(model, change, 1);
    common = sum(common, shift, 1);
  }
  return model;
}

TEST(Scaffold, FollowsTheReference) {
  const ToyProblem problem{.seed = 83, .samples = {12, 3, 20, 8, 5}};
  for (const double fraction : {1.0, 0.4}) {
    const RoundOptions rounds{.clients = 5, .rounds = kRounds, .fraction = fraction, .seed = 84};
    auto policy =
        federated({.rounds = rounds, .aggregate = {.kind = AggregateOptions::Kind::equal}, .control_variates = true});
    const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2, 3, 0.5, 0.7});
    const FederatedRounds same(rounds);
    const Vector model = controlled(problem, 5, [&](int64_t t) { return same.selection(t); });
    for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, model), 1e-11) << fraction;
  }
}

/// With clients that differ, many local steps move fedavg's fixed point away from the minimum; scaffold's stays there.
TEST(Scaffold, EndsNearerToTheMinimumThanFedAvg) {
  const ToyProblem problem{.seed = 85, .dims = 5, .samples = {8, 8, 8}, .batch = 8};
  const auto slope = [&](const Vector& w) {
    Vector g(w.size());
    for (int c = 0; c < 3; ++c) g = sum(g, problem.gradient(c, 0, w), 1.0 / 3);
    double squares = 0;
    for (const double x : g) squares += x * x;
    return std::sqrt(squares);
  };
  const FederatedOptions average{.rounds = {.clients = 3, .rounds = 150}, .local = steps(10)};
  FederatedOptions variates = average;
  variates.aggregate.kind = AggregateOptions::Kind::equal;
  variates.control_variates = true;
  auto one = federated(average), other = federated(variates);
  const double of_average = slope(train_clients(*one, problem, {.learning_rate = kRate}, {1, 1, 1})[0].weights);
  const double of_variates = slope(train_clients(*other, problem, {.learning_rate = kRate}, {1, 1, 1})[0].weights);
  EXPECT_LT(of_variates, of_average / 100);
}

TEST(Scaffold, ThreadsFollowTheSameRounds) {
  const ToyProblem problem{.seed = 86, .samples = {12, 3, 20}};
  const FederatedOptions options{.rounds = {.clients = 3, .rounds = kRounds},
                                 .aggregate = {.kind = AggregateOptions::Kind::equal},
                                 .control_variates = true};
  auto modelled = federated(options), real = federated(options);
  const auto expected = train_clients(*modelled, problem, {.learning_rate = kRate}, {1, 2, 3});
  ThreadWorld world(3, real->server());
  const auto actual = train_toy(world, *real, problem, {.steps = {kMoreThanEnough}, .learning_rate = kRate});
  for (size_t c = 0; c < 3; ++c) EXPECT_LT(largest_difference(actual[c].weights, expected[c].weights), 1e-12);
}

// -- what a round adds up to

std::vector<std::vector<double>> random_answers(int count, int elements, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> answers(static_cast<size_t>(count), std::vector<double>(size_t(elements)));
  for (auto& answer : answers)
    for (double& x : answer) x = normal(random);
  return answers;
}

/// The round's update, where each answer has two parts.
std::vector<double> added_up(const AggregateOptions& options, const std::vector<std::vector<double>>& answers) {
  RoundSum round(options);
  for (const auto& answer : answers) {
    const at::Tensor all = at::tensor(answer, at::kDouble);
    const std::vector<at::Tensor> parts{all.narrow(0, 0, 2), all.narrow(0, 2, all.numel() - 2)};
    round.add({.update = parts, .samples = 3});
  }
  return to_vector(round.update());
}

TEST(RobustMeans, AreThoseOfEachElement) {
  for (const int count : {1, 2, 5, 8, 11}) {
    const auto answers = random_answers(count, 7, 90 + uint64_t(count));
    const auto medians = added_up({.kind = AggregateOptions::Kind::median}, answers);
    const auto trimmed = added_up({.kind = AggregateOptions::Kind::trimmed_mean, .trim = 0.2}, answers);
    for (size_t d = 0; d < 7; ++d) {
      std::vector<double> column;
      column.reserve(answers.size());
      for (const auto& answer : answers) column.push_back(answer[d]);
      std::sort(column.begin(), column.end());
      const size_t n = column.size(), all_but_one = (n - 1) / 2;
      const size_t out = std::min((n + 4) / 5, all_but_one);
      EXPECT_NEAR(medians[d], (column[(n - 1) / 2] + column[n / 2]) / 2, 1e-14) << count;
      double mean = 0;
      for (size_t i = out; i < n - out; ++i) mean += column[i] / double(n - 2 * out);
      EXPECT_NEAR(trimmed[d], mean, 1e-14) << count;
    }
  }
}

TEST(RobustMeans, KrumTakesTheAnswerNearestToItsNeighbours) {
  for (const int64_t byzantine : {0, 1, 2}) {
    const auto answers = random_answers(9, 7, 95);
    double least = 0;
    size_t best = answers.size();
    for (size_t i = 0; i < answers.size(); ++i) {
      std::vector<double> distances;
      for (size_t j = 0; j < answers.size(); ++j) {
        double squares = 0;
        for (size_t d = 0; d < 7; ++d) squares += std::pow(answers[i][d] - answers[j][d], 2);
        if (j != i) distances.push_back(squares);
      }
      std::sort(distances.begin(), distances.end());
      double score = 0;
      for (size_t k = 0; k < 9 - size_t(byzantine) - 2; ++k) score += distances[k];
      if (best == answers.size() || score < least) {
        best = i;
        least = score;
      }
    }
    const auto taken = added_up({.kind = AggregateOptions::Kind::krum, .byzantine = byzantine}, answers);
    for (size_t d = 0; d < 7; ++d) EXPECT_EQ(taken[d], answers[best][d]) << byzantine;
  }
}

TEST(RobustMeans, KrumNeedsEnoughAnswers) {
  RoundSum round({.kind = AggregateOptions::Kind::krum, .byzantine = 1});
  const std::vector<at::Tensor> update{at::ones({2}, at::kDouble)};
  for (int answers = 1; answers <= 5; ++answers) {
    round.add({.update = update, .samples = 1});
    EXPECT_EQ(round.is_enough(), answers == 5);
  }
}

TEST(RobustMeans, WithstandAnswersThatAreFarAway) {
  auto answers = random_answers(9, 7, 97);
  for (double& x : answers[3]) x = 1e9;
  for (double& x : answers[6]) x = -1e12;
  using Kind = AggregateOptions::Kind;
  for (const Kind kind : {Kind::median, Kind::trimmed_mean, Kind::krum})
    for (const double x : added_up({.kind = kind, .trim = 0.3, .byzantine = 2}, answers))
      EXPECT_LT(std::abs(x), 4) << text_of(kind);
  EXPECT_GT(std::abs(added_up({}, answers)[0]), 1e9) << "the mean does not";
}

}  // namespace
}  // namespace trireme
