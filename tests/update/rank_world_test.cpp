// Replicas on ranks of a Communicator: the same results and counts as with threads, over any backend; if one fails, all
// end.
#include "update/hub/rank_world.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "../base/expect_error.h"
#include "base/seconds.h"
#include "rank_worlds.h"
#include "support/ranks.h"
#include "toy.h"
#include "update/async_average.h"
#include "update/diloco.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/federated.h"
#include "update/hub/thread_world.h"
#include "update/local_sgd.h"
#include "update/partial.h"
#include "update/shat.h"

namespace trireme {
namespace {

using test_support::Backend;
using Make = std::function<std::unique_ptr<UpdatePolicy>()>;

constexpr double kSoon = 5;  // seconds: limit for an abort to reach all on a busy machine
const Length kEachStep{1, Length::Unit::steps};

class RankWorldOver : public ::testing::TestWithParam<Backend> {};
INSTANTIATE_TEST_SUITE_P(Backends, RankWorldOver, ::testing::Values(Backend::local, Backend::gloo),
                         [](const auto& info) { return test_support::name_of(info.param); });

/// Expects the same weights, moments and counts as with threads, but not the same seconds.
void expect_thread_bits(Backend backend, const Make& make, const ToyOptions& options) {
  const ToyProblem problem{.seed = 41, .samples = {12, 12, 12}};
  auto on_threads = make(), on_ranks = make();
  ThreadWorld threads(3, on_threads->server());
  RankWorlds ranks(backend, 3, on_ranks->server());
  const auto a = train_toy(threads, *on_threads, problem, options), b = train_toy(ranks, *on_ranks, problem, options);
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(a[size_t(r)].weights, b[size_t(r)].weights) << r;
    EXPECT_EQ(a[size_t(r)].moments, b[size_t(r)].moments) << r;
    const HubCounts expected = a[size_t(r)].counts, counted = ranks.counts(r);
    EXPECT_EQ(expected.bytes_sent, counted.bytes_sent) << r;
    EXPECT_EQ(expected.bytes_received, counted.bytes_received) << r;
    EXPECT_EQ(expected.collectives, counted.collectives) << r;
    EXPECT_EQ(expected.visits, counted.visits) << r;
  }
}

TEST_P(RankWorldOver, PoliciesThatDoNotDependOnArrivalGiveTheBitsAndCountsOfThreads) {
  const ToyOptions options{.steps = {10}, .momentum = 0.9, .dtype = at::kFloat};
  expect_thread_bits(
      GetParam(),
      [] {
        return local_sgd({.every = {3, Length::Unit::steps}, .moments = Moments::averaged});
      },
      options);
  expect_thread_bits(GetParam(),
                     [] {
                       return local_sgd({.every = {4, Length::Unit::steps}, .overlap = 2});
                     },
                     {.steps = {10}, .dtype = at::kFloat});
  expect_thread_bits(
      GetParam(), [] { return diloco({.every = 4}); }, options);
  expect_thread_bits(
      GetParam(), [] { return diloco({.every = 4, .fragments = 2, .overlap = 1, .mix = 0.5, .four_bits = true}); },
      options);
  const ToyOptions rounds{.steps = {100000}, .dtype = at::kFloat};
  expect_thread_bits(
      GetParam(), []() -> std::unique_ptr<UpdatePolicy> { return federated({.rounds = {.clients = 3, .rounds = 4}}); },
      rounds);
}

TEST_P(RankWorldOver, EveryServerPolicyGivesOneResultWithTheCountsOfThreads) {
  const std::vector<Make> all = {
      [] { return easgd({.period = 2, .shards = 2}, 3); },
      [] { return downpour({.shards = 3, .push_every = 2, .warm_start = 3}, 3); },
      [] { return shat({.period = 2}, 3); },
      [] { return partial_average({.every = kEachStep}, 3); },
      [] { return async_average({.every = kEachStep, .share = AsyncAverageOptions::Share::by_samples, .shards = 2}); },
      [] { return async_average({.every = kEachStep}); }};
  const ToyProblem problem{.seed = 42};
  const ToyOptions options{.steps = {8}, .learning_rate = 0.01};
  for (const Make& make : all) {
    const auto on_threads = make(), on_ranks = make();
    ThreadWorld threads(3, on_threads->server());
    RankWorlds ranks(GetParam(), 3, on_ranks->server());
    const auto a = train_toy(threads, *on_threads, problem, options), b = train_toy(ranks, *on_ranks, problem, options);
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(b[r].weights, b[0].weights);
      EXPECT_EQ(a[r].counts.bytes_sent, b[r].counts.bytes_sent);
      EXPECT_EQ(a[r].counts.visits, b[r].counts.visits);
      EXPECT_EQ(std::accumulate(a[r].counts.staleness.begin(), a[r].counts.staleness.end(), int64_t{0}),
                std::accumulate(b[r].counts.staleness.begin(), b[r].counts.staleness.end(), int64_t{0}));
    }
  }
}

/// A server that never answers operation 1.
class Never final : public ShardServer {
 public:
  int shards() const override { return 1; }
  std::optional<Reply> serve(int, int replica, const Request& request, double) override {
    if (request.operation == 2) fail_run({fmt::format("replica {}", replica), "asked for what there is not", "", ""});
    return request.operation == 1 ? std::nullopt : std::optional(Reply{});
  }
};

TEST_P(RankWorldOver, AnAbortEndsVisitsAndCollectivesSoon) {
  for (const int failing : {0, 2}) {
    Never server;
    RankWorlds world(GetParam(), 3, &server);
    std::vector<std::string> said(3);
    const double began = steady_seconds();
    expect_error(Blame::run, {"the cable", "was cut"}, [&] {
      run_replicas(world, [&](Hub& hub) {
        hub.barrier();
        if (hub.replica() == failing) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
          fail_run({"the cable", "was cut", "", ""});
        }
        try {
          if (hub.replica() == 1) hub.visit(0, {.operation = 1});
          hub.barrier();
        } catch (const Error& error) {
          said[size_t(hub.replica())] = error.what();
          throw;
        }
      });
    });
    EXPECT_LT(steady_seconds() - began, kSoon);
    EXPECT_THAT(said[1], ::testing::HasSubstr("the cable"));
  }
}

TEST_P(RankWorldOver, ARequestThatTheServerCannotUseEndsAllWithItsReason) {
  Never server;
  RankWorlds world(GetParam(), 2, &server);
  expect_error(Blame::run, {"replica 1", "asked for what there is not"}, [&] {
    run_replicas(world, [&](Hub& hub) {
      if (hub.replica() == 1) hub.visit(0, {.operation = 2});
      hub.barrier();
    });
  });
}

TEST(RankWorld, OneThatEndsBeforeItsWorkIsDoneEndsTheOthers) {
  test_support::run_ranks(2, [&](Communicator& leaders) {
    if (leaders.rank() == 1) {
      const RankWorld world(leaders, nullptr);
      return;
    }
    expect_error(Blame::run, {"replica 1 ended before its work was done"}, [&] {
      RankWorld world(leaders, nullptr);
      world.run([](Hub& hub) { hub.barrier(); });
    });
  });
}

TEST(RankWorld, InVirtualTimeUnmeteredExchangesTakeNoTime) {
  test_support::run_ranks_in_virtual_time(3, [](Communicator& leaders) {
    const auto policy = easgd({.period = 2}, 3);  // only rank 0 has the centre
    const ToyProblem problem{.seed = 43};
    RankWorld world(leaders, policy->server());
    ToyResult result;
    world.run([&](Hub& hub) {
      hub.begin_step();
      leaders.virtual_time()->advance_to(leaders.now() + 1 + hub.replica());
      hub.end_step();
      {
        Hub::Unmetered quiet(hub);
        std::vector<at::Tensor> tensors = {at::full({2}, double(hub.replica()), at::kDouble)};
        hub.average(tensors);
        EXPECT_EQ(tensors[0][1].item<double>(), 1);
        EXPECT_EQ(hub.now(), 1 + hub.replica());
      }
      EXPECT_EQ(hub.counts().compute_seconds, 1 + hub.replica());
      hub.barrier();
      EXPECT_EQ(hub.now(), 3);
      EXPECT_EQ(hub.counts().idle_seconds, 2 - hub.replica());
      result = toy_replica(hub, *policy, problem, {.steps = {4}});
    });
    EXPECT_EQ(result.steps, 4);
    for (int replica = 0; leaders.rank() == 0 && replica < 3; ++replica)
      EXPECT_EQ(world.counts(replica).visits, 3);  // two pulls and the last fetch
  });
}

}  // namespace
}  // namespace trireme
