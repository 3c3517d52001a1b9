// Emulated links: how long transfers take, and that their data stays the same.
#include "comm/local/emulated_links.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "../base/expect_error.h"
#include "comm/local/local_world.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(EmulatedLinks::Time from, EmulatedLinks::Time to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Runs the body of every rank on its own thread; returns the seconds for all.
double run_ranks(int n, const LinkSpeed& speed, const std::function<void(Communicator&)>& body) {
  LocalWorld world(n, std::make_shared<EmulatedLinks>(n, LinkSchedule{speed, {}}));
  const auto begin = Clock::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n; ++rank) threads.emplace_back([&, rank] { body(*world.communicator(rank)); });
  for (std::thread& thread : threads) thread.join();
  return seconds_between(begin, Clock::now());
}

TEST(EmulatedLinks, MessagesOfOneWorkerWaitForEachOther) {
  EmulatedLinks links(4, {{.bandwidth = 1e6, .latency = 0.5}, {}});
  const auto begin = Clock::now();
  const auto first = links.message(0, 1, 1000000), second = links.message(0, 2, 1000000),
             other = links.message(3, 0, 1000000);
  EXPECT_NEAR(seconds_between(begin, first), 1.5, 0.1);
  EXPECT_NEAR(seconds_between(begin, second), 2.5, 0.1) << "the sender's connection is taken";
  EXPECT_NEAR(seconds_between(begin, other), 1.5, 0.1) << "into a worker that sends: full duplex";
  EXPECT_NEAR(seconds_between(begin, links.message(3, 1, 1000000)), 2.5, 0.1)
      << "the receiver's was taken, and the sender's";
  EXPECT_NEAR(seconds_between(begin, links.message(2, 2, 1000000)), 0, 0.1) << "to itself";
}

TEST(EmulatedLinks, CollectivesTakeTheirBytesAndRounds) {
  EmulatedLinks links(4, {{.bandwidth = 1e6, .latency = 0.25}, {}});
  const std::vector<int> ranks{0, 1, 2, 3};
  const std::vector<int64_t> bytes{1500000, 1500000, 1500000, 1500000};
  const auto begin = Clock::now();
  EXPECT_NEAR(seconds_between(begin, links.collective(ranks, bytes, rounds_of(Collective::all_reduce, 4))),
              1.5 + 4 * 0.25, 0.1);
  EXPECT_NEAR(seconds_between(begin, links.message(0, 1, 0)), 1.5 + 0.25, 0.1) << "after it";
  EXPECT_EQ(rounds_of(Collective::all_reduce, 2), 2);
  EXPECT_EQ(rounds_of(Collective::all_gather, 8), 3);
  EXPECT_EQ(rounds_of(Collective::all_to_all, 8), 7);
  EXPECT_EQ(rounds_of(Collective::barrier, 8), 0);
  EXPECT_EQ(rounds_of(Collective::all_reduce, 1), 0);
}

TEST(EmulatedLinks, SpeedChangesAtItsStep) {
  EmulatedLinks links(2, {{.bandwidth = 100, .latency = 1},
                          {{5, {.bandwidth = 10, .latency = 1}}, {9, {.bandwidth = 20, .latency = 2}}}});
  links.begin_step(4);
  EXPECT_EQ(links.speed().bandwidth, 100);
  links.begin_step(6);
  EXPECT_EQ(links.speed().bandwidth, 10);
  links.begin_step(3);  // a slower worker
  EXPECT_EQ(links.speed().bandwidth, 10);
  links.begin_step(12);
  EXPECT_EQ(links.speed().latency, 2);
}

/// 100 kB at 10 MB/s take 10 ms. Every operation gives the same data as without emulated links.
TEST(EmulatedLinks, TransfersTakeAtLeastTheirTime) {
  constexpr double kBandwidth = 10e6, kLatency = 2e-3;
  const int64_t floats = 25000;
  struct Case {
    const char* name;
    double least;
    std::function<void(Communicator&)> body;
  };
  const std::vector<Case> cases{{"all_reduce", 2 * 0.5 * 0.010 + 2 * kLatency,
                                 [=](Communicator& c) {
                                   at::Tensor t = at::full({floats}, float(c.rank() + 1));
                                   c.all_reduce(t);
                                   EXPECT_TRUE(at::equal(t, at::full({floats}, 3.0f)));
                                 }},
                                {"small all_reduce", 2 * kLatency,
                                 [=](Communicator& c) {
                                   at::Tensor t = at::full({1}, float(c.rank() + 1));
                                   c.all_reduce(t);
                                   EXPECT_EQ(t.item<float>(), 3);
                                 }},
                                {"all_gather", 0.010 + kLatency,
                                 [=](Communicator& c) {
                                   std::vector<at::Tensor> outputs{at::empty({floats}), at::empty({floats})};
                                   c.all_gather(at::full({floats}, float(c.rank())), outputs);
                                   EXPECT_TRUE(at::equal(outputs[1], at::ones({floats})));
                                 }},
                                {"reduce_scatter", 0.010 + kLatency,
                                 [=](Communicator& c) {
                                   const std::vector<at::Tensor> inputs{at::ones({floats}), at::full({floats}, 2.0f)};
                                   at::Tensor output = at::empty({floats});
                                   c.reduce_scatter(inputs, output);
                                   EXPECT_TRUE(at::equal(output, at::full({floats}, float(2 * (c.rank() + 1)))));
                                 }},
                                {"broadcast", 0.010 + kLatency,
                                 [=](Communicator& c) {
                                   at::Tensor t = at::full({floats}, float(c.rank()));
                                   c.broadcast(t, 1);
                                   EXPECT_TRUE(at::equal(t, at::ones({floats})));
                                 }},
                                {"message there and back", 2 * (0.010 + kLatency),
                                 [=](Communicator& c) {
                                   if (c.rank() == 0) c.send(at::ones({floats}), 1, 7);
                                   const at::Tensor t = c.receive(1 - c.rank(), 7);
                                   if (c.rank() == 1) c.send(t, 0, 7);
                                   EXPECT_TRUE(at::equal(t, at::ones({floats})));
                                 }},
                                {"in a group", 0.010 + 2 * kLatency, [=](Communicator& c) {
                                   const std::vector<int> both{0, 1};
                                   at::Tensor t = at::full({floats}, float(c.rank() + 1));
                                   c.group(both)->all_reduce(t);
                                   EXPECT_TRUE(at::equal(t, at::full({floats}, 3.0f)));
                                 }}};
  for (const Case& test : cases) {
    const double took = run_ranks(2, {kBandwidth, kLatency}, test.body);
    EXPECT_GE(took, test.least) << test.name;
    EXPECT_LT(took, test.least + 1) << test.name;  // on a busy machine
  }
}

TEST(EmulatedLinks, AnAbortEndsATransfer) {
  LocalWorld world(2, std::make_shared<EmulatedLinks>(2, LinkSchedule{{.bandwidth = 1, .latency = 0}, {}}));  // hours
  const auto begin = Clock::now();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    world.abort("enough");
  });
  auto sender = world.communicator(0);
  auto receiver = world.communicator(1);
  sender->send(at::ones({10000}), 1, 0);
  expect_error(Blame::run, {"enough"}, [&] { receiver->receive(0, 0); });
  other.join();
  EXPECT_LT(seconds_between(begin, Clock::now()), 2);
}

}  // namespace
}  // namespace trireme
