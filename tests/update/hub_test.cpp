// Hubs: results and counts of collectives and visits, on threads, on the modelled clock and over TCP; their times on
// the modelled clock.
#include "update/hub/hub_world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "../base/expect_error.h"
#include "base/random.h"
#include "comm/formulas.h"
#include "rank_worlds.h"
#include "remote_world.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
#include "worlds.h"

namespace trireme {
namespace {

const FixedTimes kOneSecond({1.0});

enum class Kind { threads, modelled, remote, ranks, gloo };

std::unique_ptr<HubWorld> make_world(Kind kind, int replicas, ShardServer* server = nullptr) {
  if (kind == Kind::modelled) return std::make_unique<VirtualWorld>(replicas, kOneSecond, VirtualLinks{}, server);
  if (kind == Kind::remote) return std::make_unique<RemoteWorld>(replicas, server);
  if (kind == Kind::ranks) return std::make_unique<RankWorlds>(test_support::Backend::local, replicas, server);
  if (kind == Kind::gloo) return std::make_unique<RankWorlds>(test_support::Backend::gloo, replicas, server);
  return std::make_unique<ThreadWorld>(replicas, server);
}

/// Bytes that a replica sends to sum this many doubles: over a ring, or to the server.
int64_t sum_bytes(Kind kind, int64_t elements, int replicas, int replica) {
  return kind == Kind::remote ? elements * 8 : all_reduce_bytes(elements, 8, replicas, replica);
}

double value_of(uint64_t seed, int replica, int64_t i) { return Philox(seed).normal(uint64_t(i), uint64_t(replica)); }

at::Tensor tensor_of(uint64_t seed, int replica, int64_t elements, at::ScalarType dtype = at::kDouble) {
  at::Tensor values = at::empty({elements}, at::kDouble);
  for (int64_t i = 0; i < elements; ++i) values.data_ptr<double>()[i] = value_of(seed, replica, i);
  return values.to(dtype);
}

std::string name_of_kind(const ::testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"threads", "virtual", "remote", "ranks", "gloo"};
  return kNames[int(info.param)];
}

class Hubs : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Worlds, Hubs,
                         ::testing::Values(Kind::threads, Kind::modelled, Kind::remote, Kind::ranks, Kind::gloo),
                         name_of_kind);

TEST_P(Hubs, AverageIsTheMeanOfTheMembers) {
  constexpr uint64_t kSeed = 7;
  auto world = make_world(GetParam(), 5);
  run_replicas(*world, [&](Hub& hub) {
    std::vector<at::Tensor> tensors = {tensor_of(kSeed, hub.replica(), 7), tensor_of(kSeed + 1, hub.replica(), 2)};
    hub.average(tensors);
    for (int t = 0; t < 2; ++t)
      for (int64_t i = 0; i < tensors[size_t(t)].numel(); ++i) {
        double mean = 0;
        for (int r = 0; r < 5; ++r) mean += value_of(kSeed + uint64_t(t), r, i) / 5;
        EXPECT_NEAR(tensors[size_t(t)][i].item<double>(), mean, 1e-14);
      }
    EXPECT_EQ(hub.counts().bytes_sent,
              sum_bytes(GetParam(), 7, 5, hub.replica()) + sum_bytes(GetParam(), 2, 5, hub.replica()));
    EXPECT_EQ(hub.counts().collectives, 1);
  });
}

TEST_P(Hubs, AveragesAreWeightedAndSkipZeroWeights) {
  auto world = make_world(GetParam(), 4);
  run_replicas(*world, [&](Hub& hub) {
    const double weights[] = {3, 0, 1, 4};
    std::vector<at::Tensor> tensors = {hub.replica() == 1 ? at::full({3}, NAN, at::kDouble)
                                                          : tensor_of(3, hub.replica(), 3)};
    hub.weighted_average(tensors, weights[hub.replica()]);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_NEAR(tensors[0][i].item<double>(), (3 * value_of(3, 0, i) + value_of(3, 2, i) + 4 * value_of(3, 3, i)) / 8,
                  1e-14);
  });
}

TEST_P(Hubs, SubsetsAverageAmongThemselves) {
  auto world = make_world(GetParam(), 5);
  run_replicas(*world, [&](Hub& hub) {
    const std::vector<int> odd = {1, 3}, even = {0, 2, 4};
    const std::vector<int>& mine = hub.replica() % 2 ? odd : even;
    std::vector<at::Tensor> tensors = {at::full({1}, double(hub.replica()), at::kDouble)};
    for (int twice = 0; twice < 2; ++twice) hub.average(tensors, mine);
    EXPECT_EQ(tensors[0].item<double>(), 2);
    EXPECT_EQ(hub.total(hub.replica(), mine), hub.replica() % 2 ? 4 : 6);
  });
}

TEST_P(Hubs, SubsetsGatherBytes) {
  constexpr int64_t kBytes = 7;
  auto world = make_world(GetParam(), 5);
  run_replicas(*world, [&](Hub& hub) {
    const std::vector<int> odd = {1, 3}, even = {0, 2, 4};
    const std::vector<int>& mine = hub.replica() % 2 ? odd : even;
    for (int turn = 0; turn < 2; ++turn) {
      const at::Tensor code = at::full({kBytes}, 10 * turn + hub.replica(), at::kByte);
      const std::vector<at::Tensor> gathered = hub.gather(code, mine);
      ASSERT_EQ(gathered.size(), mine.size());
      for (size_t m = 0; m < mine.size(); ++m)
        EXPECT_TRUE(at::equal(gathered[m], at::full({kBytes}, 10 * turn + mine[m], at::kByte)));
      EXPECT_TRUE(hub.gather(at::empty({0}, at::kByte), mine)[1].numel() == 0);
    }
    const int64_t others = int64_t(mine.size()) - 1;
    // Over a star a replica sends its tensor once and gets all tensors.
    EXPECT_EQ(hub.counts().bytes_sent, 2 * kBytes * (GetParam() == Kind::remote ? 1 : others));
    EXPECT_EQ(hub.counts().bytes_received, 2 * kBytes * (GetParam() == Kind::remote ? others + 1 : others));
    EXPECT_EQ(hub.counts().collectives, 4);
  });
}

TEST_P(Hubs, ExchangesRunBesideOtherWork) {
  auto world = make_world(GetParam(), 3);
  run_replicas(*world, [&](Hub& hub) {
    auto mean = hub.begin_average({tensor_of(5, hub.replica(), 4)});
    auto all = hub.begin_gather(at::full({2}, double(hub.replica()), at::kDouble));
    const std::vector<at::Tensor> gathered = all->wait(), means = mean->wait();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(gathered[size_t(r)][1].item<double>(), r);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_NEAR(means[0][i].item<double>(), (value_of(5, 0, i) + value_of(5, 1, i) + value_of(5, 2, i)) / 3, 1e-14);
    // Over a star a replica sends its tensor once and gets all tensors.
    EXPECT_EQ(hub.counts().bytes_sent,
              sum_bytes(GetParam(), 4, 3, hub.replica()) + (GetParam() == Kind::remote ? 16 : 2 * 16));
  });
}

/// Adds the values of visits, without its own lock; operation 1 waits until all replicas have added.
class Adder final : public ShardServer {
 public:
  Adder(int shards, int waits_for) : sums_(size_t(shards)), visits_(size_t(shards)), waits_for_(waits_for) {}
  int shards() const override { return int(sums_.size()); }
  std::optional<Reply> serve(int shard, int, const Request& request, double) override {
    if (request.operation == 1 && visits_[size_t(shard)] < waits_for_) return std::nullopt;
    if (request.operation == 0) {
      sums_[size_t(shard)] += request.tensors[0].item<double>();
      ++visits_[size_t(shard)];
    }
    return Reply{.numbers = {sums_[size_t(shard)]}};
  }

 private:
  std::vector<double> sums_;
  std::vector<int> visits_;
  const int waits_for_;
};

TEST_P(Hubs, VisitsExcludeEachOtherAndMayBePutOff) {
  constexpr int kReplicas = 4, kVisits = 200;
  Adder adder(3, kReplicas * kVisits);
  auto world = make_world(GetParam(), kReplicas, &adder);
  run_replicas(*world, [&](Hub& hub) {
    for (int k = 0; k < kVisits; ++k) {
      std::vector<Hub::ShardRequest> requests;
      for (int s = 0; s < 3; ++s)
        requests.push_back({s, {.operation = 0, .tensors = {at::full({1}, double(s + 1), at::kDouble)}}});
      hub.visit(std::move(requests));
    }
    for (int s = 0; s < 3; ++s) EXPECT_EQ(hub.visit(s, {.operation = 1}).numbers[0], kReplicas * kVisits * (s + 1));
    EXPECT_EQ(hub.counts().bytes_sent, kVisits * 3 * 8);
    EXPECT_EQ(hub.counts().visits, kVisits * 3 + 3);
  });
}

TEST_P(Hubs, AReplicaThatFailsEndsAllWithItsReason) {
  Adder adder(1, 1000);
  for (const int where : {0, 1, 2}) {
    auto world = make_world(GetParam(), 3, &adder);
    std::atomic<int> ended = 0;
    const auto body = [&](Hub& hub) {
      if (hub.replica() == 1) fail_run({"the cable", "was cut", "", ""});
      try {
        if (where == 0) hub.barrier();
        if (where == 1) hub.visit(0, {.operation = 1});
        if (where == 2) hub.begin_gather(at::ones({2}))->wait();
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("the cable"), std::string::npos) << error.what();
        ++ended;
        throw;
      }
    };
    expect_error(Blame::run, {"the cable", "was cut"}, [&] { run_replicas(*world, body); });
    // On the modelled clock replica 2 has not begun yet. A remote replica may not have joined yet and then fails when
    // it joins.
    if (GetParam() == Kind::threads || GetParam() == Kind::ranks || GetParam() == Kind::gloo) {
      EXPECT_EQ(ended, 2);
    } else if (GetParam() == Kind::modelled) {
      EXPECT_EQ(ended, 1);
    } else {
      EXPECT_LE(ended, 2);
    }
  }
}

TEST_P(Hubs, UnmeteredExchangesCountNothing) {
  Adder adder(1, 0);
  auto world = make_world(GetParam(), 2, &adder);
  run_replicas(*world, [&](Hub& hub) {
    Hub::Unmetered evaluation(hub);
    std::vector<at::Tensor> tensors = {at::full({4}, double(hub.replica()))};
    hub.average(tensors);
    EXPECT_EQ(tensors[0][3].item<double>(), 0.5);
    hub.visit(0, {.operation = 0, .tensors = {at::ones({1})}});
    EXPECT_EQ(hub.counts().bytes_sent + hub.counts().bytes_received + hub.counts().visits + hub.counts().collectives,
              0);
  });
}

// -- the modelled clock

TEST(VirtualHub, CollectivesTakeTheirLinks) {
  // Links of 1 MB/s and 0.1 s. A step takes 5 s on replica 2 and 1 s on the others.
  const FixedTimes times({1, 1, 5, 1});
  VirtualWorld world(4, times, {.replicas = {{.bandwidth = 1e6, .latency = 0.1}}});
  run_replicas(world, [&](Hub& hub) {
    std::vector<at::Tensor> tensors = {at::ones({1000000}, at::kFloat)};
    hub.begin_step();
    hub.end_step();
    hub.average(tensors);
    // 2 * 3/4 * 4 MB at 1 MB/s, 2 log2(4) rounds.
    EXPECT_DOUBLE_EQ(hub.now(), 5 + 6 + 4 * 0.1);
    EXPECT_DOUBLE_EQ(hub.counts().idle_seconds, hub.replica() == 2 ? 0 : 4);
    EXPECT_DOUBLE_EQ(hub.counts().exchange_seconds, 6.4);
    EXPECT_DOUBLE_EQ(hub.counts().compute_seconds, hub.replica() == 2 ? 5 : 1);
  });
}

TEST(VirtualHub, GathersTakeTheirLinks) {
  const FixedTimes times({1, 5, 2, 2});
  VirtualWorld world(4, times, {.replicas = {{.bandwidth = 1e6, .latency = 0.1}}});
  run_replicas(world, [&](Hub& hub) {
    const std::vector<int> pair = hub.replica() < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    hub.begin_step();
    hub.end_step();
    hub.gather(at::ones({2000000}, at::kByte), pair);  // 2 s, one round; the other pair does not wait
    EXPECT_DOUBLE_EQ(hub.now(), (hub.replica() < 2 ? 5 : 2) + 2.1);
    EXPECT_DOUBLE_EQ(hub.counts().idle_seconds, hub.replica() == 0 ? 4 : 0);
    EXPECT_DOUBLE_EQ(hub.counts().exchange_seconds, 2.1);
  });
}

TEST(VirtualHub, StartedExchangesAreHidden) {
  VirtualWorld world(2, kOneSecond, {.replicas = {{.bandwidth = 1e6, .latency = 0}}});
  run_replicas(world, [&](Hub& hub) {
    auto pending = hub.begin_average({at::ones({625000}, at::kFloat)});  // 2.5 s
    for (int k = 0; k < 2; ++k) {
      hub.begin_step();
      hub.end_step();
    }
    pending->wait();
    EXPECT_DOUBLE_EQ(hub.now(), 2.5);
    EXPECT_DOUBLE_EQ(hub.counts().exchange_seconds, 0.5);
    auto again = hub.begin_average({at::ones({125000}, at::kFloat)});  // 0.5 s
    hub.begin_step();
    hub.end_step();
    again->wait();
    EXPECT_DOUBLE_EQ(hub.now(), 3.5);
    EXPECT_DOUBLE_EQ(hub.counts().exchange_seconds, 0.5);
  });
}

TEST(VirtualHub, WaitingForOthersInAStartedExchangeIsIdle) {
  const FixedTimes times({1, 4});
  VirtualWorld world(2, times, {.replicas = {{.bandwidth = 1e6, .latency = 0}}});
  run_replicas(world, [&](Hub& hub) {
    hub.begin_step();
    hub.end_step();
    hub.begin_average({at::ones({625000}, at::kFloat)})->wait();  // takes 2.5 s after both have started it
    EXPECT_DOUBLE_EQ(hub.now(), 6.5);
    EXPECT_DOUBLE_EQ(hub.counts().idle_seconds, hub.replica() == 0 ? 3 : 0);
    EXPECT_DOUBLE_EQ(hub.counts().exchange_seconds, 2.5);
  });
}

TEST(HubsInRealTime, WaitingForOthersInAStartedExchangeIsIdle) {
  constexpr double kLate = 0.2;
  for (const Kind kind : {Kind::threads, Kind::remote, Kind::ranks, Kind::gloo}) {
    auto world = make_world(kind, 2);
    run_replicas(*world, [&](Hub& hub) {
      hub.barrier();
      if (hub.replica() == 1) std::this_thread::sleep_for(std::chrono::duration<double>(kLate));
      hub.begin_average({at::ones({10}, at::kFloat)})->wait();
      if (hub.replica() == 1) return;
      EXPECT_GT(hub.counts().idle_seconds, 0.5 * kLate);
      EXPECT_LT(hub.counts().exchange_seconds, 0.5 * kLate);
    });
  }
}

TEST(VirtualHub, SlowVisitorsHoldAFastServerForTheirShareOnly) {
  Adder adder(1, 0);
  const VirtualLinks links{.replicas = {{.bandwidth = 1e6, .latency = 0}}, .server = {.bandwidth = 4e6, .latency = 0}};
  VirtualWorld world(6, kOneSecond, links, &adder);
  std::vector<double> back(6);
  run_replicas(world, [&](Hub& hub) {
    hub.visit(0, {.operation = 0, .tensors = {at::ones({1}, at::kDouble), at::ones({124999}, at::kDouble)}});  // 1 MB
    back[size_t(hub.replica())] = hub.now();
  });
  // Each visit takes 1 s on the replica's link and 0.25 s of the server: four have ended at 1 s, the others wait in
  // turn.
  EXPECT_EQ(back, (std::vector<double>{1, 1, 1, 1, 1.25, 1.5}));
}

TEST(VirtualHub, VisitorsShareTheServersConnection) {
  Adder adder(2, 0);
  // Each replica's link is twice as fast as the server's; both shards are on one machine.
  const VirtualLinks links{.replicas = {{.bandwidth = 2e6, .latency = 0.25}},
                           .server = {.bandwidth = 1e6, .latency = 0.5}};
  VirtualWorld world(3, kOneSecond, links, &adder);
  std::vector<double> back(3);
  run_replicas(world, [&](Hub& hub) {
    hub.visit(hub.replica() % 2,
              {.operation = 0, .tensors = {at::ones({1}, at::kDouble), at::ones({124999}, at::kDouble)}});  // 1 MB
    back[size_t(hub.replica())] = hub.now();
  });
  // Each 1 MB takes 1 s of the server's link, one after the other. The latency is 0.5 s there and 0.5 s back.
  EXPECT_DOUBLE_EQ(back[0], 2);
  EXPECT_DOUBLE_EQ(back[1], 3);
  EXPECT_DOUBLE_EQ(back[2], 4);
}

TEST(VirtualHub, TurnsGoByTimeAndNumber) {
  const FixedTimes times({3, 2, 1});
  VirtualWorld world(3, times);
  std::vector<std::pair<double, int>> order;
  run_replicas(world, [&](Hub& hub) {
    for (int k = 0; k < 6; ++k) {
      hub.begin_step();
      hub.end_step();
      order.emplace_back(hub.now(), hub.replica());  // needs no lock: only one replica runs at a time
    }
  });
  EXPECT_EQ(order.size(), 18u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(VirtualHub, WaitingForEverIsAnError) {
  Adder adder(1, 5);
  VirtualWorld world(2, kOneSecond, {}, &adder);
  expect_error(
      Blame::run,
      {"no replica can continue", "replica 0 waits for the parameter server", "replica 1 waits for 1 of 2 replicas"},
      [&] {
        run_replicas(world, [&](Hub& hub) {
          if (hub.replica() == 0) hub.visit(0, {.operation = 1});
          hub.barrier();
        });
      });
}

TEST(ModelledSteps, AreDrawnByReplicaAndStep) {
  ModelledSteps steps;
  steps.base_seconds = {1, 4};
  EXPECT_EQ(steps.seconds(0, 9), 1);
  EXPECT_EQ(steps.seconds(7, 9), 4);
  steps.jitter = 0.3;
  steps.seed = 11;
  double sum = 0;
  for (int64_t k = 0; k < 4000; ++k) {
    EXPECT_EQ(steps.seconds(0, k), steps.seconds(0, k));
    EXPECT_NE(steps.seconds(1, k), 4 * steps.seconds(0, k));
    sum += steps.seconds(0, k) / 4000;
  }
  EXPECT_NEAR(sum, 1, 4 * 0.3 / std::sqrt(4000.0)) << "seed 11";
  steps.jitter = 0;
  steps.straggle_probability = 0.25;
  steps.straggle_factor = 10;
  int slow = 0;
  for (int64_t k = 0; k < 4000; ++k) slow += steps.seconds(0, k) == 10 ? 1 : 0;
  EXPECT_NEAR(slow / 4000.0, 0.25, 0.03) << "seed 11";
}

}  // namespace
}  // namespace trireme
