// Ranks as processes over gloo: they communicate, and the others report it when a rank fails, dies or freezes.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "children.h"
#include "comm/flight_recorder.h"
#include "comm/formulas.h"
#include "comm/gloo/gloo.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using test_support::ChildEnd;
using test_support::Children;
using test_support::ChildTask;
using test_support::free_port;
using ::testing::HasSubstr;

constexpr int kEndedByError = 3;  // exit code of a rank that another rank's failure ended

WorldOptions options_of(const ChildTask& task) {
  WorldOptions options{.rank = task.rank, .size = task.size, .rendezvous_seconds = 20, .timeout_seconds = 20};
  options.store_file = task.rendezvous_file();
  return options;
}

/// words: the port of the rendezvous; without one, a file is used.
int sum_role(const ChildTask& task) {
  WorldOptions options = options_of(task);
  if (!task.words.empty()) {
    options.store_file.clear();
    options.port = std::stoi(task.words[0]);
  }
  const auto world = gloo_communicator(options);
  for (const int64_t length : {3, 1'000'003}) {
    at::Tensor tensor = at::arange(length, at::kDouble) + task.rank;
    world->all_reduce(tensor);
    const double n = task.size;
    if (!tensor.equal(at::arange(length, at::kDouble) * n + n * (n - 1) / 2)) return 1;
  }
  const int next = (task.rank + 1) % task.size, previous = (task.rank + task.size - 1) % task.size;
  world->send(at::full({1'000'000}, task.rank, at::kFloat), next, 11);
  if (!world->receive(previous, 11).equal(at::full({1'000'000}, previous, at::kFloat))) return 2;
  const int64_t bytes =
      all_reduce_bytes(3, 8, task.size, task.rank) + all_reduce_bytes(1'000'003, 8, task.size, task.rank) + 4'000'000;
  return world->count().bytes_sent == bytes ? 0 : 4;
}

/// Repeats `body` until an error; prints the error.
template <class Body>
int until_error(Body body) {
  try {
    while (true) body();
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return error.blame() == Blame::run ? kEndedByError : 1;
  }
}

/// words: the operation of every rank, "all_reduce", "large" (all_reduce of 40 MB) or "receive" (from rank 1); the
/// timeout; a port, if any.
int loop_role(const ChildTask& task) {
  WorldOptions options = options_of(task);
  options.timeout_seconds = std::stod(task.words[1]);
  if (task.words.size() > 2) {
    options.store_file.clear();
    options.port = std::stoi(task.words[2]);
  }
  const auto world = gloo_communicator(options);
  at::Tensor tensor = at::zeros({task.words[0] == "large" ? 10'000'000 : 1000});
  world->barrier();
  std::cout << "ready" << std::endl;
  if (task.words[0] == "receive") {
    if (task.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    return until_error([&] { world->receive(1, 5); });
  }
  return until_error([&] { world->all_reduce(tensor); });
}

/// words: a port. Rank 1 computes longer than the time after which a silent rank counts as frozen.
int slow_role(const ChildTask& task) {
  WorldOptions options = options_of(task);
  options.store_file.clear();
  options.port = std::stoi(task.words[0]);
  const auto world = gloo_communicator(options);
  at::Tensor tensor = at::ones({1000});
  for (int step = 0; step < 2; ++step) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kSilenceSeconds + 2);
    while (task.rank == 1 && step == 0 && std::chrono::steady_clock::now() < end) at::sum(tensor);
    world->all_reduce(tensor);
  }
  return tensor[0].item<float>() == float(task.size * task.size) ? 0 : 1;
}

/// words: a port; "said" if rank 1 announces long work. The work takes longer than the timeout.
int long_role(const ChildTask& task) {
  WorldOptions options = options_of(task);
  options.store_file.clear();
  options.port = std::stoi(task.words[0]);
  options.timeout_seconds = 1;
  const auto world = gloo_communicator(options);
  at::Tensor tensor = at::ones({1000});
  try {
    world->barrier();
    if (task.rank == 1) {
      const LongWork planning(task.words[1] == "said" ? flight_recorder(*world) : nullptr, "planning");
      std::this_thread::sleep_for(std::chrono::seconds(4));
    }
    world->all_reduce(tensor);
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return kEndedByError;
  }
  return 0;
}

/// words: a port. Rank 0 waits for rank 1, which waits for rank 2, which works for longer than rank 0's patience with a
/// rank at the same place.
int chain_role(const ChildTask& task) {
  WorldOptions options = options_of(task);
  options.store_file.clear();
  options.port = std::stoi(task.words[0]);
  options.timeout_seconds = 1;
  const auto world = gloo_communicator(options);
  world->barrier();
  if (task.rank == 2) {
    const LongWork planning(flight_recorder(*world), "planning");
    std::this_thread::sleep_for(std::chrono::seconds(12));
  }
  if (task.rank < 2) world->receive(task.rank + 1, 0);
  if (task.rank > 0) world->send(at::ones({3}), task.rank - 1, 0);
  return 0;
}

/// Rank 2 makes another call than the other ranks, after twelve equal calls.
int mismatch_role(const ChildTask& task) {
  const auto world = gloo_communicator(options_of(task));
  at::Tensor tensor = at::ones({8});
  int call = 0;
  return until_error([&] {
    if (++call <= 12 || task.rank != 2) {
      world->all_reduce(tensor);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));  // by then the others are in call 13
      world->broadcast(tensor, 0);
    }
    if (call > 20) throw std::runtime_error("no rank noticed");
  });
}

/// Rank 1 aborts; the others wait in different operations.
int abort_role(const ChildTask& task) {
  const auto world = gloo_communicator(options_of(task));
  world->barrier();
  if (task.rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    world->abort("rank 1 found a NaN in the loss");
    return 0;
  }
  return until_error([&] {
    if (task.rank == 0) world->receive(2, 1);
    if (task.rank == 2) world->barrier();
  });
}

/// Rank 0 throws an error without telling the other ranks.
int throw_role(const ChildTask& task) {
  const auto world = gloo_communicator(options_of(task));
  if (task.rank == 0) {
    world->barrier();
    throw std::runtime_error("no more memory");
  }
  return until_error([&] { world->barrier(); });
}

int measure_role(const ChildTask& task) {
  const auto world = gloo_communicator(options_of(task));
  at::Tensor tensor = at::ones({25'000'000 / 4});
  std::vector<double> seconds;
  for (int i = 0; i < 12; ++i) {
    world->barrier();
    const auto start = std::chrono::steady_clock::now();
    world->all_reduce(tensor);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  std::cout << "all_reduce of 25 MB: median " << seconds[6] * 1e3 << " ms, best " << seconds[0] * 1e3 << " ms"
            << std::endl;
  at::Tensor small = at::ones({1000});
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) world->all_reduce(small);
  std::cout << "all_reduce of 4 kB: mean "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() << " ms" << std::endl;
  return 0;
}

class GlooProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  }
};

TEST_F(GlooProcesses, CommunicateThroughAFile) {
  Children children("sum", 3);
  for (const ChildEnd& end : children.wait(30)) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST_F(GlooProcesses, CommunicateThroughAPort) {
  Children children("sum", 3, {std::to_string(free_port())});
  for (const ChildEnd& end : children.wait(30)) EXPECT_EQ(end.exit_code, 0) << end.output;
}

struct Death {
  std::string doing;
  int victim;
  bool through_port;
};

class KilledRank : public GlooProcesses, public ::testing::WithParamInterface<Death> {};
INSTANTIATE_TEST_SUITE_P(Deaths, KilledRank,
                         ::testing::Values(Death{"all_reduce", 2, false}, Death{"large", 1, false},
                                           Death{"receive", 1, false}, Death{"all_reduce", 1, true},
                                           Death{"large", 0, true}));

TEST_P(KilledRank, IsNamedByTheOthersWithinSeconds) {
  const auto& [doing, victim, through_port] = GetParam();
  std::vector<std::string> words{doing, "20"};
  if (through_port) words.push_back(std::to_string(free_port()));
  Children children("loop", 3, words);
  ASSERT_TRUE(children.wait_for_output(victim, "ready", 20));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto killed = std::chrono::steady_clock::now();
  children.signal(victim, SIGKILL);
  const std::vector<ChildEnd> ends = children.wait(20);
  EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(8));
  for (int rank = 0; rank < 3; ++rank) {
    const ChildEnd& end = ends[size_t(rank)];
    if (rank == victim) {
      EXPECT_EQ(end.signal, SIGKILL);
      continue;
    }
    EXPECT_EQ(end.exit_code, kEndedByError) << end.output << " signal " << end.signal << " late " << end.out_of_time;
    // The others may notice the loss of the rank that hosts the rendezvous there first.
    if (through_port && victim == 0) {
      EXPECT_THAT(end.output, HasSubstr("rank 0"));
    } else {
      EXPECT_THAT(end.output, HasSubstr("rank " + std::to_string(victim) + " is gone"));
    }
    if (!through_port) {
      EXPECT_THAT(end.output, HasSubstr(doing == "receive" ? "receive from rank 1" : "all_reduce(sum)"));
    }
  }
}

TEST_F(GlooProcesses, AFrozenRankIsNamedAfterTheTimeout) {
  // In the second round the frozen rank hosts the rendezvous.
  for (const int frozen : {1, 0}) {
    std::vector<std::string> words{"all_reduce", "1"};
    if (frozen == 0) words.push_back(std::to_string(free_port()));
    Children children("loop", 3, words);
    const std::vector<int> others = frozen == 0 ? std::vector<int>{1, 2} : std::vector<int>{0, 2};
    for (const int rank : {0, 1, 2}) ASSERT_TRUE(children.wait_for_output(rank, "ready", 20));
    children.signal(frozen, SIGSTOP);
    for (const int rank : others) ASSERT_TRUE(children.wait_for_output(rank, "did not", 15));
    std::this_thread::sleep_for(
        std::chrono::milliseconds(frozen == 0 ? 2000 : 0));  // the others must end while rank 0 is frozen
    children.signal(frozen, SIGKILL);
    const std::vector<ChildEnd> ends = children.wait(10);
    for (const int rank : others) {
      EXPECT_EQ(ends[size_t(rank)].exit_code, kEndedByError) << ends[size_t(rank)].output;
      EXPECT_THAT(ends[size_t(rank)].output, HasSubstr("rank " + std::to_string(frozen) + " did not answer for 1 s"));
    }
  }
}

TEST_F(GlooProcesses, AFrozenRankIsNamedWithinSecondsWhateverTheTimeout) {
  for (const int frozen : {1, 0}) {  // rank 0 hosts the rendezvous
    Children children("loop", 3, {"all_reduce", "300", std::to_string(free_port())});
    const auto started = std::chrono::steady_clock::now();
    for (const int rank : {0, 1, 2}) ASSERT_TRUE(children.wait_for_output(rank, "ready", 20));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    const double frozen_at = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    children.signal(frozen, SIGSTOP);
    const std::vector<ChildEnd> ends = children.wait(12);  // kills ranks that still run
    for (int rank = 0; rank < 3; ++rank) {
      const ChildEnd& end = ends[size_t(rank)];
      EXPECT_EQ(end.out_of_time, rank == frozen) << end.output;
      if (rank == frozen) continue;
      EXPECT_EQ(end.exit_code, kEndedByError) << end.output;
      EXPECT_LT(end.seconds, frozen_at + 10);
      EXPECT_GT(end.seconds, frozen_at + kSilenceSeconds - 1) << "not at once: it may only be slow";
      EXPECT_THAT(end.output, HasSubstr("rank " + std::to_string(frozen) + " has shown no sign of life for 5 s"));
      EXPECT_THAT(end.output, HasSubstr("last sign of life was before the first step"));
    }
  }
}

TEST_F(GlooProcesses, ASlowRankIsNotFrozen) {
  Children children("slow", 2, {std::to_string(free_port())});
  for (const ChildEnd& end : children.wait(30)) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST_F(GlooProcesses, LongWorkIsWaitedForWhereItIsSaid) {
  Children said("long", 2, {std::to_string(free_port()), "said"});
  for (const ChildEnd& end : said.wait(30)) EXPECT_EQ(end.exit_code, 0) << end.output;
  Children unsaid("long", 2, {std::to_string(free_port()), "unsaid"});
  for (const ChildEnd& end : unsaid.wait(30)) {
    EXPECT_EQ(end.exit_code, kEndedByError);
    EXPECT_THAT(end.output, HasSubstr("rank 1 did not answer for 1 s"));
  }
}

// Runs by itself (CMakeLists.txt): beside others it would disturb their time limits.
TEST_F(GlooProcesses, DISABLED_PatienceWithARankExtendsToThoseThatWaitForIt) {
  Children children("chain", 3, {std::to_string(free_port())});
  for (const ChildEnd& end : children.wait(40)) EXPECT_EQ(end.exit_code, 0) << end.output;
}

TEST_F(GlooProcesses, ARankThatWasStoppedBrieflyContinues) {
  for (const int stopped : {1, 0}) {
    Children children("loop", 3, {"all_reduce", "300", std::to_string(free_port())});
    for (const int rank : {0, 1, 2}) ASSERT_TRUE(children.wait_for_output(rank, "ready", 20));
    children.signal(stopped, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::duration<double>(kSilenceSeconds / 2));
    children.signal(stopped, SIGCONT);
    std::this_thread::sleep_for(std::chrono::seconds(4));  // by now a rank that noticed a frozen rank would have ended
    children.signal(2, SIGKILL);
    const std::vector<ChildEnd> ends = children.wait(10);
    for (const int rank : {0, 1}) EXPECT_THAT(ends[size_t(rank)].output, HasSubstr("rank 2 is gone"));
  }
}

TEST_F(GlooProcesses, MismatchedCallsAreShownWithEarlierOperations) {
  Children children("mismatch", 3);
  const std::vector<ChildEnd> ends = children.wait(20);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string& output = ends[size_t(rank)].output;
    EXPECT_EQ(ends[size_t(rank)].exit_code, kEndedByError) << output;
    EXPECT_THAT(output, HasSubstr("all_reduce(sum) of Float [8], call 13 of ranks 0,1,2"));
    EXPECT_THAT(output, HasSubstr("rank 2 called broadcast(root 0) of Float [8], call 13 of ranks 0,1,2"));
    const std::string line = "rank " + std::to_string(rank) + ", last operations: before the first step: ";
    std::vector<std::string> calls;
    for (size_t at = output.find(line); at != output.npos; at = output.find(line, at + 1))
      calls.push_back(output.substr(at + line.size(), output.find('\n', at) - at - line.size()));
    ASSERT_EQ(calls.size(), 10u) << output;
    for (int k = 0; k < 9; ++k)
      EXPECT_EQ(calls[size_t(k)], "all_reduce(sum) of Float [8], call " + std::to_string(4 + k) + " of ranks 0,1,2");
    EXPECT_EQ(calls[9], std::string(rank == 2 ? "broadcast(root 0)" : "all_reduce(sum)") +
                            " of Float [8], call 13 of ranks 0,1,2");
  }
}

TEST_F(GlooProcesses, AnAbortReachesTheOthers) {
  Children children("abort", 3);
  const std::vector<ChildEnd> ends = children.wait(20);
  EXPECT_EQ(ends[1].exit_code, 0) << ends[1].output;
  for (const int rank : {0, 2}) {
    EXPECT_EQ(ends[size_t(rank)].exit_code, kEndedByError) << ends[size_t(rank)].output;
    EXPECT_THAT(ends[size_t(rank)].output, HasSubstr("rank 1 found a NaN in the loss"));
    EXPECT_LT(ends[size_t(rank)].seconds, ends[1].seconds + 3);
  }
}

TEST_F(GlooProcesses, AnErrorThatIsNotReportedEndsTheOthers) {
  Children children("throw", 3);
  const std::vector<ChildEnd> ends = children.wait(20);
  EXPECT_THAT(ends[0].output, HasSubstr("no more memory"));
  for (const int rank : {1, 2}) {
    EXPECT_EQ(ends[size_t(rank)].exit_code, kEndedByError) << ends[size_t(rank)].output;
    EXPECT_THAT(ends[size_t(rank)].output, HasSubstr("rank 0 ended before its work was done"));
  }
}

/// Prints measurements; run with --gtest_also_run_disabled_tests.
TEST_F(GlooProcesses, DISABLED_Measure) {
  Children children("measure", 2);
  for (const ChildEnd& end : children.wait(60)) std::cout << end.output;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::test_support::process_main(argc, argv,
                                             {{"sum", trireme::sum_role},
                                              {"loop", trireme::loop_role},
                                              {"slow", trireme::slow_role},
                                              {"long", trireme::long_role},
                                              {"chain", trireme::chain_role},
                                              {"mismatch", trireme::mismatch_role},
                                              {"abort", trireme::abort_role},
                                              {"throw", trireme::throw_role},
                                              {"measure", trireme::measure_role}});
}
