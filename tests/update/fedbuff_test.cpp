// FedBuff beside a simulation of its clients, event by event.
#include "update/fedbuff.h"

#include <gtest/gtest.h>

#include <cmath>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/hub/virtual_world.h"
#include "update/registry.h"
#include "worlds.h"

namespace trireme {
namespace {

constexpr int64_t kSteps = 24;

struct Modelled {
  std::vector<ToyResult> results;
  Vector model;
};

Modelled train(const FedbuffOptions& options, const ToyProblem& problem, const std::vector<double>& seconds) {
  auto policy = fedbuff(options);
  const FixedTimes times(seconds);
  VirtualWorld world(int(seconds.size()), times, {}, policy->server());
  Modelled run;
  run.results = train_toy(world, *policy, problem, {.steps = {kSteps}, .learning_rate = kRate});
  run.model = run.results[0].weights;
  return run;
}

/// Clients give an update after each `local` steps; the client whose step ends first is next. No two steps may end at
/// the same time.
Vector reference(const FedbuffOptions& options, const ToyProblem& problem, const std::vector<double>& seconds,
                 int64_t local) {
  struct Client {
    Vector read, now;
    int64_t steps = 0, version = 0;
    double clock = 0;
  };
  Vector model = problem.initial(), sum(model.size());
  std::vector<Client> clients(seconds.size(), Client{.read = model, .now = model});
  int64_t version = 0, buffered = 0;
  const auto apply = [&] {
    for (size_t d = 0; d < model.size(); ++d) model[d] += options.learning_rate / double(buffered) * sum[d];
    sum.assign(sum.size(), 0);
    buffered = 0;
    ++version;
  };
  const auto next = [&]() -> Client* {
    Client* first = nullptr;
    for (size_t c = 0; c < clients.size(); ++c)
      if (clients[c].steps < kSteps &&
          (!first || clients[c].clock + seconds[c] < first->clock + seconds[size_t(first - clients.data())]))
        first = &clients[c];
    return first;
  };
  while (Client* const client = next()) {
    const int number = int(client - clients.data());
    const Vector g = problem.gradient(number, client->steps++, client->now);
    client->clock += seconds[size_t(number)];
    for (size_t d = 0; d < g.size(); ++d) client->now[d] -= kRate * g[d];
    if (client->steps % local != 0) continue;
    const double s = options.discounts ? 1 / std::sqrt(1.0 + double(version - client->version)) : 1;
    for (size_t d = 0; d < g.size(); ++d) sum[d] += s * (client->now[d] - client->read[d]);
    if (++buffered == options.buffer) apply();
    client->read = client->now = model;
    client->version = version;
  }
  if (buffered > 0) apply();
  return model;
}

TEST(FedBuff, FollowsTheReference) {
  const ToyProblem problem{.seed = 61, .samples = {12, 8, 20}};
  const std::vector<double> seconds{1, 1.37, 2.11};
  for (const int64_t buffer : {1, 2, 5})
    for (const bool discounts : {true, false}) {
      const FedbuffOptions options{.local = steps(4), .buffer = buffer, .learning_rate = 0.8, .discounts = discounts};
      const Modelled run = train(options, problem, seconds);
      const Vector expected = reference(options, problem, seconds, 4);
      for (const ToyResult& result : run.results)
        EXPECT_LT(largest_difference(result.weights, expected), 1e-12) << options.description();
    }
}

TEST(FedBuff, IsSerialTrainingWithOneClientAndABufferOfOne) {
  const ToyProblem problem{.seed = 62};
  const Modelled run = train({.local = steps(3), .buffer = 1}, problem, {1});
  Vector w = problem.initial();
  for (int64_t k = 0; k < kSteps; ++k) {
    const Vector g = problem.gradient(0, k, w);
    for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * g[d];
  }
  EXPECT_LT(largest_difference(run.model, w), 1e-12);
}

TEST(FedBuff, AnUpdateThatIsLateCountsLess) {
  const ToyProblem problem{.seed = 63, .samples = {12}};
  const std::vector<double> seconds{1, 1.03, 9.7};
  const FedbuffOptions discounted{.local = steps(4), .buffer = 1};
  FedbuffOptions ignored = discounted;
  ignored.discounts = false;
  EXPECT_GT(largest_difference(train(discounted, problem, seconds).model, train(ignored, problem, seconds).model),
            1e-3);
}

TEST(FedBuff, ShardsOfTheModelHaveBuffersOfTheirOwn) {
  const ToyProblem problem{.seed = 64, .samples = {12, 8}};
  const FedbuffOptions one{.local = steps(4), .buffer = 2};
  FedbuffOptions three = one;
  three.shards = 3;
  EXPECT_LT(largest_difference(train(one, problem, {1, 1.37}).model, train(three, problem, {1, 1.37}).model), 1e-12)
      << "without links all shards are visited at the same time";
}

TEST(FedBuff, SaysWhatIsWrong) {
  expect_error(Blame::user, {"e.toml", "buffer"}, [] {
    make_update_policy(ConfigTable::from_string("policy = \"fedbuff\"\nbuffer = 0", "e.toml"), {.replicas = 4});
  });
  expect_error(Blame::user, {"staleness", "discounted, ignored"}, [] {
    make_update_policy(ConfigTable::from_string("policy = \"fedbuff\"\nstaleness = \"old\"", "e.toml"),
                       {.replicas = 4});
  });
}

}  // namespace
}  // namespace trireme
