// The contract of every Communicator when ranks fail, abort or make calls that do not match. One suite for all
// backends, as in contract_test.cpp.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <thread>

#include "../base/expect_error.h"
#include "comm/backends.h"
#include "comm/collective_queue.h"
#include "comm/flight_recorder.h"
#include "support/start_all_reduce.h"

namespace trireme {
namespace {

using test_support::Backend;
using test_support::run_ranks;
using test_support::start_all_reduce;
using ::testing::HasSubstr;

class ContractOfFailures : public test_support::OnBackend {};
TRIREME_ON_EVERY_BACKEND(ContractOfFailures);

TEST_P(ContractOfFailures, AnAbortReachesEveryWaitWithItsReason) {
  for (const int operation : {0, 1, 2, 3}) {
    const auto start = std::chrono::steady_clock::now();
    run_ranks(backend, 3, [&](Communicator& c) {
      at::Tensor tensor = at::ones({operation == 1 ? 500'000 : 10});
      if (c.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return c.abort("the disk is full");
      }
      const std::string message = message_of(Blame::run, [&] {
        if (operation <= 1) c.all_reduce(tensor);
        if (operation == 2) c.receive(2, 7);
        if (operation == 3) c.barrier();
      });
      EXPECT_THAT(message, HasSubstr("the disk is full"));
      EXPECT_EQ(c.abort_reason(), "the disk is full");
      EXPECT_THAT(message_of(Blame::run, [&] { c.send(tensor, 0, 0); }), HasSubstr("the disk is full"));
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

TEST_P(ContractOfFailures, AnAbortReachesStartedCollectives) {
  run_ranks(backend, 2, [&](Communicator& c) {
    CollectiveQueue queue(c.group(std::vector<int>{0, 1}));
    at::Tensor tensor = at::ones({1000}), next = at::ones({1000});
    if (c.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return c.abort("the disk is full");
    }
    std::future<OperationDone> handle = start_all_reduce(queue, tensor), never = start_all_reduce(queue, next);
    EXPECT_THAT(message_of(Blame::run, [&] { handle.get(); }), HasSubstr("the disk is full"));
    EXPECT_THAT(message_of(Blame::run, [&] { never.get(); }), HasSubstr("the disk is full"));
  });
}

TEST_P(ContractOfFailures, AStartedCollectiveThatFailsEndsLaterOnes) {
  run_ranks(backend, 2, [&](Communicator& c) {
    CollectiveQueue queue(c.group(std::vector<int>{0, 1}));
    at::Tensor tensor = at::ones({1000}), next = at::ones({1000});
    if (c.rank() == 0) c.receive(1, 0);  // waits until rank 1 has its queue; otherwise the abort could come first
    if (c.rank() == 1) {
      c.send(at::ones({1}), 0, 0);
      EXPECT_THAT(message_of(Blame::run, [&] { start_all_reduce(queue, tensor).get(); }),
                  HasSubstr("the memory is full"));
      return;
    }
    std::future<OperationDone> failing = queue.start([](Communicator&) {
      fail_run({"rank 0", "the memory is full", "", ""});
    });
    std::future<OperationDone> after = start_all_reduce(queue, next);
    EXPECT_THAT(message_of(Blame::run, [&] { failing.get(); }), HasSubstr("the memory is full"));
    EXPECT_THAT(message_of(Blame::run, [&] { after.get(); }), HasSubstr("the memory is full"));
    EXPECT_NE(queue.failure(), nullptr);
    EXPECT_THAT(c.abort_reason(), HasSubstr("the memory is full"));
  });
}

struct Mismatch {
  int ranks;
  std::string a, b;  // every rank's error contains both
  std::function<void(Communicator&)> body;
};

TEST_P(ContractOfFailures, CallsThatDoNotMatchAreAnErrorThatNamesBoth) {
  if (backend == Backend::nccl || backend == Backend::direct) GTEST_SKIP() << "links do not compare calls";
  const Mismatch mismatches[] = {
      {3, "all_reduce(sum) of Float [4]", "broadcast(root 1) of Float [4]",
       [](Communicator& c) {
         at::Tensor tensor = at::ones({4});
         c.rank() == 2 ? c.broadcast(tensor, 1) : c.all_reduce(tensor);
       }},
      {2, "Double [200000]", "Float [200000]",
       [](Communicator& c) {
         at::Tensor tensor = at::ones({200'000}, c.rank() ? at::kFloat : at::kDouble);
         c.all_reduce(tensor);
       }},
      {2, "all_reduce(sum)", "all_reduce(max)",
       [](Communicator& c) {
         at::Tensor tensor = at::ones({4});
         c.all_reduce(tensor, c.rank() ? ReduceOp::max : ReduceOp::sum);
       }},
      {2, "all_gather with Float [3]", "room for Float [2]",
       [](Communicator& c) {
         std::vector<at::Tensor> outputs{at::empty({3}), at::empty({c.rank() == 0 ? 2 : 3})};
         c.all_gather(at::ones({3}), outputs);
       }},
      {2, "all_to_all with Float [3]", "room for nothing",
       [](Communicator& c) {
         std::vector<at::Tensor> inputs{at::ones({3}), at::ones({3})}, outputs{at::empty({3}), at::empty({3})};
         if (c.rank() == 1) outputs[0] = at::Tensor();
         c.all_to_all(inputs, outputs);
       }},
  };
  for (const Mismatch& mismatch : mismatches) {
    run_ranks(backend, mismatch.ranks, [&](Communicator& c) {
      // A rank that has done its part may return; then its next operation reports the mismatch.
      const std::string message = message_of(Blame::run, [&] {
        mismatch.body(c);
        c.barrier();
      });
      EXPECT_THAT(message, HasSubstr(mismatch.a));
      EXPECT_THAT(message, HasSubstr(mismatch.b));
    });
  }
}

/// With mpirun -n 4, ranks 2 and 3 leave at once and wait at the next test.
TEST_P(ContractOfFailures, RanksThatHaveLeftAreNotReportedLost) {
  if (backend != Backend::mpi) GTEST_SKIP() << "connections that end are seen";
  run_ranks(backend, 2, [&](Communicator& c) {
    std::this_thread::sleep_for(std::chrono::duration<double>(kSilenceSeconds + 1.5));
    c.barrier();
  });
}

TEST_P(ContractOfFailures, WhatCannotBeReducedIsAnErrorForAll) {
  run_ranks(backend, 2, [&](Communicator& c) {
    at::Tensor tensor = at::ones({4}, at::kHalf);
    const std::string message = message_of(Blame::run, [&] {
      c.barrier();  // an error aborts the world, so connect all ranks first
      c.all_reduce(tensor);
    });
    EXPECT_THAT(message, HasSubstr("Half"));
  });
}

}  // namespace
}  // namespace trireme
