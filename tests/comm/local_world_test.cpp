// Errors and aborts in a local world, and how its ranks wait.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../base/expect_error.h"
#include "support/ranks.h"

namespace trireme {
namespace {

using test_support::run_ranks;
using ::testing::HasSubstr;

class AbortedWait : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Operations, AbortedWait, ::testing::Range(0, 5));

TEST_P(AbortedWait, WakesSleepersWithTheReason) {
  LocalWorld world(3);
  std::atomic<int> failed = 0;
  std::atomic<int64_t> never = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto c = world.communicator(rank);
      at::Tensor tensor = at::ones({GetParam() == 1 ? 100'000 : 10});
      const std::string message = message_of(Blame::run, [&] {
        if (GetParam() <= 1) c->all_reduce(tensor);
        if (GetParam() == 2) c->receive(2, 7);
        if (GetParam() == 3) c->barrier();
        if (GetParam() == 4) world.wait_for(never, 1);
      });
      EXPECT_THAT(message, HasSubstr("worker 2 has died"));
      EXPECT_THAT(message_of(Blame::run, [&] { c->send(tensor, 0, 0); }), HasSubstr("worker 2 has died"));
      ++failed;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // long enough that the ranks sleep
  EXPECT_EQ(failed, 0);
  const auto start = std::chrono::steady_clock::now();
  world.abort("worker 2 has died");
  world.abort("a later reason");
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_TRUE(world.aborted());
  EXPECT_EQ(world.abort_reason(), "worker 2 has died");
}

template <class Body>
void expect_mismatch(int n, const std::string& a, const std::string& b, Body body) {
  std::atomic<int> failed = 0;
  run_ranks(n, [&](Communicator& c) {
    const std::string message = message_of(Blame::run, [&] { body(c); });
    EXPECT_THAT(message, HasSubstr(a));
    EXPECT_THAT(message, HasSubstr(b));
    ++failed;
  });
  EXPECT_EQ(failed, n);
}

TEST(Mismatch, OfOperationsNamesBoth) {
  expect_mismatch(3, "all_reduce(sum) of Float [4]", "broadcast(root 1) of Float [4]", [](Communicator& c) {
    at::Tensor tensor = at::ones({4});
    if (c.rank() == 2) {
      c.broadcast(tensor, 1);
    } else {
      c.all_reduce(tensor);
    }
  });
}

TEST(Mismatch, OfShapesNamesBoth) {
  expect_mismatch(4, "Float [4, 2]", "Float [2, 4]", [](Communicator& c) {
    at::Tensor tensor = c.rank() == 3 ? at::ones({2, 4}) : at::ones({4, 2});
    c.all_reduce(tensor);
  });
}

TEST(Mismatch, OfDtypesNamesBoth) {
  expect_mismatch(2, "Double [200000]", "Float [200000]", [](Communicator& c) {
    at::Tensor tensor = at::ones({200'000}, c.rank() ? at::kFloat : at::kDouble);
    c.all_reduce(tensor);
  });
}

TEST(Mismatch, OfReductionsAndRoots) {
  expect_mismatch(2, "all_reduce(sum)", "all_reduce(max)", [](Communicator& c) {
    at::Tensor tensor = at::ones({4});
    c.all_reduce(tensor, c.rank() ? ReduceOp::max : ReduceOp::sum);
  });
  expect_mismatch(2, "broadcast(root 0)", "broadcast(root 1)", [](Communicator& c) {
    at::Tensor tensor = at::ones({4});
    c.broadcast(tensor, c.rank());
  });
}

TEST(Mismatch, OfRoomInGatherAndScatter) {
  expect_mismatch(2, "all_gather with Float [3]", "room for Float [2]", [](Communicator& c) {
    std::vector<at::Tensor> outputs{at::empty({3}), at::empty({c.rank() == 0 ? 2 : 3})};
    c.all_gather(at::ones({3}), outputs);
  });
  expect_mismatch(2, "all_to_all with Float [3]", "room for nothing", [](Communicator& c) {
    std::vector<at::Tensor> inputs{at::ones({3}), at::ones({3})}, outputs{at::empty({3}), at::empty({3})};
    if (c.rank() == 1) outputs[0] = at::Tensor();
    c.all_to_all(inputs, outputs);
  });
}

TEST(WrongUse, IsAnErrorForAll) {
  expect_mismatch(2, "cannot reduce dtype", "Half", [](Communicator& c) {
    at::Tensor tensor = at::ones({4}, at::kHalf);
    c.all_reduce(tensor);
  });
  run_ranks(2, [](Communicator& c) {
    const std::vector<int> without_me{1 - c.rank()};
    EXPECT_NE(message_of(Blame::run, [&] { c.group(without_me); }), "no error");
  });
}

TEST(RunRanks, ThrowsAgainWhatARankThrew) {
  EXPECT_THAT(message_of(Blame::run,
                         [] {
                           run_ranks(3, [](Communicator& c) {
                             if (c.rank() == 1)
                               fail_run({.where = "rank 1", .what = "out of luck", .why = "", .next = ""});
                             c.barrier();
                           });
                         }),
              HasSubstr("out of luck"));
}

TEST(WaitFor, SeesEveryAdvance) {
  constexpr int kThreads = 6, kRounds = 300;  // more threads than cores, so that some sleep
  LocalWorld world(kThreads);
  std::atomic<int64_t> counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t round = 0; round < kRounds; ++round) {
        world.wait_for(counter, round * kThreads + t);
        world.advance(counter);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, kThreads * kRounds);
}

TEST(Barrier, NoRankLeavesBeforeAllHaveArrived) {
  std::atomic<int> arrived = 0;
  run_ranks(5, [&](Communicator& c) {
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      c.barrier();
      EXPECT_GE(arrived, round * 5);
      c.barrier();
      EXPECT_EQ(arrived, round * 5);
      c.barrier();
    }
  });
}

}  // namespace
}  // namespace trireme
