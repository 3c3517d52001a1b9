// The gloo backend beyond contract_test.cpp: waiting, mismatches and ranks that leave. Ranks are threads here; in
// tests/process they are processes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "../base/expect_error.h"
#include "comm/backends.h"
#include "comm/collective_queue.h"
#include "comm/flight_recorder.h"
#include "comm/process/process_world.h"
#include "support/start_all_reduce.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using test_support::RendezvousFile;
using test_support::run_gloo_ranks;
using test_support::start_all_reduce;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  }
};

TEST_F(Gloo, WaitingIsCountedAndScalarsKeepTheirShape) {
  run_gloo_ranks(2, [&](Communicator& c) {
    if (c.rank() == 0) {
      EXPECT_EQ(c.receive(1, -3).dim(), 0);
      EXPECT_GT(c.count().wait_seconds, 0.15);
      EXPECT_EQ(c.count().bytes_sent, 0);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      c.send(at::scalar_tensor(2.5, at::kFloat), 0, -3);
      EXPECT_EQ(c.count().bytes_sent, 4);
      EXPECT_LT(c.count().wait_seconds, 0.1);
    }
    EXPECT_EQ(c.count().operations, 1);
  });
}

TEST_F(Gloo, ARankThatLeftIsNamed) {
  run_gloo_ranks(3, [&](Communicator& c) {
    if (c.rank() == 2) return;
    const std::string message = message_of(Blame::run, [&] { c.barrier(); });
    EXPECT_THAT(message, HasSubstr("rank 2 is gone"));
    EXPECT_THAT(message, HasSubstr("barrier"));
  });
}

TEST(Loss, IsInWordsWithoutThePlaceInTheTransportsSource) {
  EXPECT_EQ(loss_in_words("[./gloo/transport/tcp/pair.cc:589] Read error [127.0.0.1]:62619: Connection reset by peer"),
            "its process has ended or its connection is broken (Connection reset by peer, address 127.0.0.1:62619)");
  EXPECT_EQ(loss_in_words("[../gloo/transport/tcp/pair.cc:598] Connection closed by peer [::1]:8013"),
            "its process has ended or its connection is broken (Connection closed by peer, address ::1:8013)");
  EXPECT_EQ(loss_in_words("cancelled"), "cancelled");
}

TEST_F(Gloo, ARankThatDoesNotAnswerIsNamed) {
  run_gloo_ranks(
      2,
      [&](Communicator& c) {
        if (c.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1800));
          EXPECT_THAT(message_of(Blame::run, [&] { c.receive(0, 0); }), HasSubstr("rank 1 did not answer for 1"));
        } else {
          EXPECT_THAT(message_of(Blame::run, [&] { c.receive(1, 4); }),
                      HasSubstr("receive from rank 1, tag 4: rank 1 did not answer for 1"));
        }
      },
      /*timeout_seconds=*/1);
}

TEST_F(Gloo, RanksThatDoNotComeAreNamed) {
  const RendezvousFile rendezvous;
  EXPECT_THAT(message_of(Blame::run,
                         [&] {
                           gloo_communicator(
                               {.rank = 1, .size = 4, .store_file = rendezvous.path(), .rendezvous_seconds = 0.3});
                         }),
              HasSubstr("rank 0, 2, 3 did not arrive"));
}

TEST_F(Gloo, ARankThatIsThereTwiceAndAnotherNumberOfRanksAreNamed) {
  const RendezvousFile rendezvous;
  const auto come = [&](int rank, int size) {
    return message_of(Blame::run, [&] {
      gloo_communicator({.rank = rank, .size = size, .store_file = rendezvous.path(), .rendezvous_seconds = 0.3});
    });
  };
  EXPECT_THAT(come(1, 4), HasSubstr("rank 0, 2, 3 did not arrive"));
  EXPECT_THAT(come(1, 4),
              HasSubstr("rank 1 of 4, rendezvous at " + rendezvous.path() + ": another process has the same rank"));
  EXPECT_THAT(come(2, 3), HasSubstr("rank 1 was started as one of 4 ranks"));
}

/// The rank that is missing does not come: its process has another's rank.
TEST_F(Gloo, RanksThatWaitEndWhenTwoProcessesHaveOneRank) {
  const RendezvousFile rendezvous;
  const auto come = [&](int rank) {
    return message_of(Blame::run, [&] {
      gloo_communicator({.rank = rank, .size = 3, .store_file = rendezvous.path(), .rendezvous_seconds = 60});
    });
  };
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::future<std::string>> ends;
  ends.reserve(3);
  for (const int rank : {0, 1, 1}) ends.push_back(std::async(std::launch::async, come, rank));
  std::vector<std::string> said;
  said.reserve(ends.size());
  for (auto& end : ends) said.push_back(end.get());
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20));
  EXPECT_THAT(said[0], HasSubstr("two processes have rank 1"));
  EXPECT_THAT(said, Contains(HasSubstr("another process has the same rank")));
  EXPECT_THAT(said, Contains(AllOf(HasSubstr("rank 1 of 3"), HasSubstr("two processes have rank 1"))));
}

TEST_F(Gloo, AnInterfaceThatIsNotThereIsNamed) {
  const RendezvousFile rendezvous;
  EXPECT_THAT(
      message_of(Blame::run,
                 [&] {
                   gloo_communicator(
                       {.size = 1, .store_file = rendezvous.path(), .interface = "eth77", .rendezvous_seconds = 1});
                 }),
      HasSubstr("eth77"));
}

int threads_with_policy(int policy) {
  int count = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task"))
    count += sched_getscheduler(std::stoi(thread.path().filename())) == policy;
  return count;
}

TEST_F(Gloo, OnlyItsOwnThreadDoesNotInterruptOthers) {
  ASSERT_EQ(sched_getscheduler(0), SCHED_OTHER) << "the test itself must run under the usual policy";
  const RendezvousFile rendezvous;
  const auto world = gloo_communicator({.size = 1, .store_file = rendezvous.path(), .rendezvous_seconds = 10});
  EXPECT_EQ(threads_with_policy(SCHED_BATCH), 1);
  EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
}

/// Other programs that use the cores would make a thread under SCHED_BATCH wait for each of their turns.
TEST_F(Gloo, ItsThreadIsAsUrgentAsOtherProgramsThatUseTheCores) {
  const RendezvousFile rendezvous;
  const auto world = gloo_communicator({.size = 1, .store_file = rendezvous.path(), .rendezvous_seconds = 10});
  std::vector<pid_t> others;
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    others.push_back(::fork());
    if (others.back() == 0)
      while (true) asm volatile("");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (threads_with_policy(SCHED_BATCH) > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(threads_with_policy(SCHED_BATCH), 0);
  for (const pid_t other : others) {
    ::kill(other, SIGKILL);
    ::waitpid(other, nullptr, 0);
  }
}

TEST_F(Gloo, ABadRankIsTheUsersError) {
  try {
    gloo_communicator({.rank = 2, .size = 2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::user);
    EXPECT_THAT(error.what(), HasSubstr("rank 2 of 2"));
  }
}

// A rank that has done its part may return; then its next operation reports the mismatch.
template <class Body>
void expect_mismatch(int n, const std::string& a, const std::string& b, Body body) {
  run_gloo_ranks(n, [&](Communicator& c) {
    const std::string message = message_of(Blame::run, [&] {
      body(c);
      c.barrier();
    });
    EXPECT_THAT(message, HasSubstr(a));
    EXPECT_THAT(message, HasSubstr(b));
  });
}

TEST_F(Gloo, MismatchesNameBothCalls) {
  expect_mismatch(3, "all_reduce(sum) of Float [4]", "broadcast(root 1) of Float [4]", [](Communicator& c) {
    at::Tensor tensor = at::ones({4});
    if (c.rank() == 2) {
      c.broadcast(tensor, 1);
    } else {
      c.all_reduce(tensor);
    }
  });
  expect_mismatch(2, "Double [200000]", "Float [200000]", [](Communicator& c) {
    at::Tensor tensor = at::ones({200'000}, c.rank() ? at::kFloat : at::kDouble);
    c.all_reduce(tensor);
  });
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

TEST_F(Gloo, FingerprintsHaveGroupAndNumber) {
  expect_mismatch(2, "rank 0 called all_reduce(max) of Float [4], call 2 of ranks 0,1",
                  "rank 1 called all_reduce(sum) of Float [4], call 2 of ranks 0,1", [](Communicator& c) {
                    at::Tensor tensor = at::ones({4});
                    c.barrier();
                    c.all_reduce(tensor, c.rank() == 0 ? ReduceOp::max : ReduceOp::sum);
                  });
}

/// Neither rank receives data from the other, because they wait in different groups. The mismatch is found within
/// seconds, before the timeout.
TEST_F(Gloo, CallsInDifferentGroupsAreFoundWhileBothWait) {
  const auto start = std::chrono::steady_clock::now();
  expect_mismatch(3, "rank 0 called barrier, call 1 of ranks 0,1,2",
                  "rank 1 called all_reduce(sum) of Float [4], call 1 of ranks 0,1", [](Communicator& c) {
                    std::unique_ptr<Communicator> pair;
                    if (c.rank() < 2) pair = c.group(std::vector<int>{0, 1});
                    at::Tensor tensor = at::ones({4});
                    if (c.rank() == 1) pair->all_reduce(tensor);
                  });
  expect_mismatch(2, "rank 0 called receive from rank 1, tag 3", "rank 1 called barrier, call 1 of ranks 0,1",
                  [](Communicator& c) {
                    if (c.rank() == 0) c.receive(1, 3);
                  });
  // A queue without work does not hide the mismatch.
  expect_mismatch(2, "rank 0 called receive from rank 1, tag 3", "rank 1 called barrier, call 1 of ranks 0,1",
                  [](Communicator& c) {
                    CollectiveQueue queue(c.group(std::vector<int>{0, 1}));
                    at::Tensor tensor = at::ones({4});
                    start_all_reduce(queue, tensor).get();
                    if (c.rank() == 0) c.receive(1, 3);
                    else c.barrier();
                  });
  // Each rank waits for the other's broadcast.
  expect_mismatch(2, "rank 0 called broadcast(root 1) of Float [4]", "rank 1 called broadcast(root 0) of Float [4]",
                  [](Communicator& c) {
                    at::Tensor tensor = at::ones({4});
                    c.broadcast(tensor, 1 - c.rank());
                  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(12));
}

/// A rank of a sub-group has two numbers; messages use the one in the world.
TEST_F(Gloo, MessagesNameRanksOfTheWorld) {
  const std::string message = message_of(Blame::run, [] {
    run_gloo_ranks(3, [](Communicator& c) {
      if (c.rank() == 0) return;
      const std::unique_ptr<Communicator> pair = c.group(std::vector<int>{1, 2});
      at::Tensor tensor = at::ones({c.rank()});
      pair->all_reduce(tensor);
    });
  });
  EXPECT_THAT(message, HasSubstr("rank 1 called all_reduce(sum) of Float [1], call 1 of ranks 1,2"));
  EXPECT_THAT(message, HasSubstr("rank 2 called all_reduce(sum) of Float [2], call 1 of ranks 1,2"));
}

TEST_F(Gloo, EveryRankHasARecorder) {
  run_gloo_ranks(2, [](Communicator& c) {
    ASSERT_NE(flight_recorder(c), nullptr);
    at::Tensor tensor = at::ones({4});
    c.all_reduce(tensor);
    const std::unique_ptr<Communicator> alone = c.group(std::vector<int>{c.rank()});
    alone->all_reduce(tensor);  // a group of one rank records no operation
    c.send(tensor, 1 - c.rank(), 5);
    c.receive(1 - c.rank(), 5);
    const std::string other = std::to_string(1 - c.rank());
    EXPECT_THAT(flight_recorder(*alone)->read().last,
                ::testing::ElementsAre("before the first step: all_reduce(sum) of Float [4], call 1 of ranks 0,1",
                                       "before the first step: send to rank " + other + ", tag 5",
                                       "before the first step: receive from rank " + other + ", tag 5"));
    EXPECT_EQ(flight_recorder(c)->read().operation, "");
  });
}

TEST_F(Gloo, ErrorsInOneRankEndTheOthers) {
  const std::string message = message_of(Blame::run, [] {
    run_gloo_ranks(3, [](Communicator& c) {
      if (c.rank() == 0) fail_run({.where = "rank 0", .what = "out of luck", .why = "", .next = ""});
      c.barrier();
    });
  });
  EXPECT_THAT(message, HasSubstr("out of luck"));
}

}  // namespace
}  // namespace trireme
