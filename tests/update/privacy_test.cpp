// Differential privacy of federated clients: the accountant beside numeric integrals and a published value, and rounds
// with noise beside a serial reference.
#include "update/privacy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "../base/expect_error.h"
#include "toy.h"
#include "toy_clients.h"
#include "update/registry.h"

namespace trireme {
namespace {

double normal_density(double x, double deviation) {
  return std::exp(-x * x / (2 * deviation * deviation)) / (deviation * std::sqrt(2 * M_PI));
}

/// The Renyi divergences, at this order, of the noisy sum of one client that may be there from the one without it, and
/// the other way round: integrals by the trapezoidal rule.
std::pair<double, double> divergences(double fraction, double noise, int order) {
  const double step = noise / 2000, end = order + 12 * noise;
  double there = 0, back = 0;
  for (double x = -12 * noise; x < end; x += step) {
    const double without = normal_density(x, noise),
                 with = (1 - fraction) * without + fraction * normal_density(x - 1, noise);
    if (without == 0 || with == 0) continue;
    there += step * std::pow(with / without, order) * without;
    back += step * std::pow(without / with, order) * with;
  }
  return {std::log(there) / (order - 1), std::log(back) / (order - 1)};
}

TEST(Privacy, DivergencesAreThoseOfTheDistributions) {
  for (const double fraction : {0.001, 0.01, 0.1, 0.5, 0.9, 1.0})
    for (const double noise : {0.7, 1.0, 2.5})
      for (const int order : {2, 3, 5, 9}) {
        const auto [there, back] = divergences(fraction, noise, order);
        const double computed = renyi_divergence(fraction, noise, order);
        EXPECT_NEAR(computed, there, 1e-6 * std::max(there, 1e-3)) << fraction << " " << noise << " " << order;
        EXPECT_GE(computed, back - 1e-9) << "the larger of both counts";
      }
}

/// Abadi et al., "Deep learning with differential privacy", 2016, section 5.1: q = 0.01, sigma = 4, delta = 1e-5, 100
/// epochs, orders up to 33: epsilon 1.26, by the conversion of that time.
TEST(Privacy, ReachesAPublishedEpsilon) {
  constexpr double kFraction = 0.01, kNoise = 4, kDelta = 1e-5;
  constexpr int64_t kRounds = 10000;
  double published = std::numeric_limits<double>::infinity();
  for (int order = 2; order <= 33; ++order)
    published =
        std::min(published, kRounds * renyi_divergence(kFraction, kNoise, order) + std::log(1 / kDelta) / (order - 1));
  EXPECT_NEAR(published, 1.26, 0.005);
  const double epsilon = privacy_spent(kFraction, {.noise = kNoise, .delta = kDelta}, kRounds).epsilon;
  EXPECT_LT(epsilon, published) << "the newer conversion is tighter";
  EXPECT_GT(epsilon, 0.5 * published);
}

/// Without sampling, one round is the Gaussian mechanism, whose exact delta is known (Balle, Wang, "Improving the
/// Gaussian mechanism for differential privacy", 2018, theorem 8): the accountant may not promise less than it.
TEST(Privacy, IsNeverBelowTheExactValue) {
  const auto below = [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); };
  for (const double noise : {0.5, 1.0, 3.0, 10.0})
    for (const double delta : {1e-3, 1e-6}) {
      const double epsilon = privacy_spent(1, {.noise = noise, .delta = delta}, 1).epsilon;
      const double exact =
          below(1 / (2 * noise) - epsilon * noise) - std::exp(epsilon) * below(-1 / (2 * noise) - epsilon * noise);
      EXPECT_LE(exact, delta) << noise << " " << delta;
    }
}

TEST(Privacy, GrowsWithRoundsAndShrinksWithNoise) {
  const PrivacyOptions options{.noise = 1, .delta = 1e-5};
  EXPECT_EQ(privacy_spent(0.1, options, 0).epsilon, 0);
  EXPECT_LT(privacy_spent(0.1, options, 10).epsilon, privacy_spent(0.1, options, 100).epsilon);
  EXPECT_LT(privacy_spent(0.1, options, 10).epsilon, privacy_spent(1, options, 10).epsilon);
  EXPECT_LT(privacy_spent(0.1, {.noise = 2, .delta = 1e-5}, 10).epsilon, privacy_spent(0.1, options, 10).epsilon);
}

TEST(Privacy, NoiseIsNormalAndNewInEachRound) {
  constexpr int64_t kElements = 200000;
  const auto noise_of = [](uint64_t secret, int64_t round) {
    std::vector<at::Tensor> parts = {at::zeros({kElements / 2}, at::kDouble), at::zeros({kElements / 2}, at::kDouble)};
    add_noise(parts, 3, secret, round);
    return at::cat(parts);
  };
  const at::Tensor noise = noise_of(1, 0), next = noise_of(1, 1), other = noise_of(2, 0);
  const double error = 1 / std::sqrt(double(kElements));  // the standard deviation of a mean
  EXPECT_NEAR(noise.mean().item<double>(), 0, 5 * 3 * error);
  EXPECT_NEAR(noise.std().item<double>(), 3, 5 * 3 * error);
  EXPECT_NEAR((noise.abs() < 3).to(at::kDouble).mean().item<double>(), 0.6827, 5 * error);
  for (const at::Tensor& second : {next, other, noise.roll({kElements / 2}, {0})})
    EXPECT_NEAR((noise * second).mean().item<double>(), 0, 5 * 9 * error) << "they are independent";
  EXPECT_TRUE(at::equal(noise, noise_of(1, 0)));
}

constexpr double kClip = 0.05;

FederatedOptions private_options(int clients, int64_t rounds, double fraction) {
  FederatedOptions options{.rounds = {.clients = clients, .rounds = rounds, .fraction = fraction},
                           .clip_norm = kClip,
                           .aggregate = {.kind = AggregateOptions::Kind::equal},
                           .privacy = {.noise = 0.3, .delta = 1e-3, .seed = 5}};
  options.rounds.secret = secret_of(options.privacy);
  return options;
}

/// Serial: clipped updates, their sum with noise, divided by the expected number of clients.
Vector reference(const ToyProblem& problem, const FederatedOptions& options) {
  const FederatedRounds rounds(options.rounds);
  Vector model = problem.initial();
  for (int64_t t = 0; t < options.rounds.rounds; ++t) {
    std::vector<at::Tensor> sum = {at::zeros({int64_t(model.size())}, at::kDouble)};
    for (const int client : rounds.selection(t)) {
      Vector w = model;
      for (int64_t k = 0; k < problem.steps_per_epoch(client); ++k) {
        const Vector g = problem.gradient(client, k, w);
        for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d];
      }
      double squares = 0;
      for (size_t d = 0; d < w.size(); ++d) squares += std::pow(w[d] - model[d], 2);
      const double scale = std::min(1.0, kClip / std::sqrt(squares));
      for (size_t d = 0; d < w.size(); ++d) sum[0].data_ptr<double>()[d] += scale * (w[d] - model[d]);
    }
    add_noise(sum, options.privacy.noise * kClip, *options.rounds.secret, t);
    for (size_t d = 0; d < model.size(); ++d)
      model[d] += sum[0].data_ptr<double>()[d] / (options.rounds.fraction * options.rounds.clients);
  }
  return model;
}

TEST(Privacy, RoundsFollowTheReference) {
  const ToyProblem problem{.seed = 91, .samples = {12, 3, 20, 8, 5}};
  for (const double fraction : {0.2, 0.5, 1.0}) {
    const FederatedOptions options = private_options(5, 12, fraction);
    auto policy = federated(options);
    const auto results = train_clients(*policy, problem, {.learning_rate = kRate}, {1, 2, 3, 0.5, 0.7});
    const Vector model = reference(problem, options);
    for (const ToyResult& result : results) EXPECT_LT(largest_difference(result.weights, model), 1e-12) << fraction;
    const std::vector<RoundRecord> rounds = policy->rounds();
    ASSERT_EQ(rounds.size(), 12u);
    int empty = 0, clipped = 0;
    for (const RoundRecord& round : rounds) {
      empty += round.selected == 0;
      clipped += round.clipped;
    }
    EXPECT_GT(clipped, 0);
    EXPECT_EQ(empty > 0, fraction == 0.2) << "rounds without clients count, too";
    ASSERT_TRUE(policy->privacy());
    EXPECT_EQ(policy->privacy()->epsilon, privacy_spent(fraction, options.privacy, 12).epsilon);
  }
}

/// Each client by itself: the number of selected clients has the mean and the variance of a binomial distribution.
TEST(Privacy, ClientsAreSelectedIndependently) {
  constexpr int kClients = 40, kRounds = 4000;
  constexpr double kFraction = 0.3;
  const FederatedRounds rounds(private_options(kClients, kRounds, kFraction).rounds);
  double sum = 0, squares = 0;
  for (int64_t t = 0; t < kRounds; ++t) {
    const double selected = double(rounds.selection(t).size());
    sum += selected;
    squares += selected * selected;
  }
  const double mean = sum / kRounds, variance = squares / kRounds - mean * mean, expected = kFraction * kClients;
  EXPECT_NEAR(mean, expected, 5 * std::sqrt(expected * (1 - kFraction) / kRounds));
  EXPECT_NEAR(variance, expected * (1 - kFraction), 0.1 * expected);
}

TEST(Privacy, IsNotPromisedWhereItIsNotKept) {
  const ToyProblem problem{.seed = 92};
  auto policy = federated(private_options(1, 2, 1));
  const auto statistics = [](int) { return std::vector<RunningStatistics>{{at::zeros({3}), at::ones({3})}}; };
  expect_error(Blame::user, {"noise", "running statistics", "leave noise out"},
               [&] { train_clients(*policy, problem, {.learning_rate = kRate, .statistics = statistics}, {1}); });
  const auto expect = [](const std::vector<std::string>& parts, const std::string& keys) {
    const ConfigTable table = ConfigTable::from_string("policy = \"fedavg\"\n" + keys, "e.toml");
    expect_error(Blame::user, parts, [&] { make_update_policy(table, {.replicas = 4}); });
  };
  expect({"noise", "clip_norm"}, "noise = 1.0");
  expect({"delta", "probability"}, "noise = 1.0\nclip_norm = 1.0\ndelta = 1.0");
  expect({"delta", "belongs to noise"}, "delta = 1e-5");
  expect({"noise_seed", "belongs to noise"}, "noise_seed = 3");
  expect({"fraction", "above 0"}, "noise = 1.0\nclip_norm = 1.0\nfraction = 0.0");
  expect({"aggregate", "mean"}, "noise = 1.0\nclip_norm = 1.0\naggregate = \"median\"");
}

TEST(Privacy, WithoutASeedTheNoiseIsAnotherOneEachTime) {
  EXPECT_NE(secret_of({.noise = 1}), secret_of({.noise = 1}));
  EXPECT_EQ(secret_of({.noise = 1, .seed = 4}), secret_of({.noise = 1, .seed = 4}));
}

}  // namespace
}  // namespace trireme
