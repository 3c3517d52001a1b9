// Replicas as processes over gloo: the same result as with threads; all end within seconds after one is killed.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "children.h"
#include "comm/gloo/gloo.h"
#include "trireme/error.h"
#include "update/easgd.h"
#include "update/federated.h"
#include "update/hub/rank_world.h"
#include "update/hub/thread_world.h"
#include "update/local_sgd.h"
#include "update/toy.h"

namespace trireme {
namespace {

using test_support::ChildEnd;
using test_support::Children;
using test_support::ChildTask;
using ::testing::HasSubstr;

constexpr int kEndedByError = 3;
constexpr int kReplicas = 3;
const ToyProblem kProblem{.seed = 91, .samples = {12, 8, 12}};
const ToyOptions kOptions{.steps = {9}, .momentum = 0.5, .dtype = at::kFloat};

std::unique_ptr<UpdatePolicy> policy_named(const std::string& name) {
  if (name == "local-sgd") return local_sgd({.every = {2, Length::Unit::steps}});
  if (name == "fedavg") return federated({.rounds = {.clients = kReplicas, .rounds = 3}});
  return easgd({.period = 2, .shards = 2}, kReplicas);
}

std::string in_words(const ToyResult& result, const HubCounts& counts) {
  std::string text;
  for (const double w : result.weights) text += std::to_string(w * 1e6) + " ";
  return text + "sent " + std::to_string(counts.bytes_sent) + " received " + std::to_string(counts.bytes_received) +
         " in " + std::to_string(counts.collectives) + " collectives and " + std::to_string(counts.visits) + " visits";
}

std::unique_ptr<Communicator> connect(const ChildTask& task) {
  WorldOptions options{.rank = task.rank, .size = task.size, .rendezvous_seconds = 20, .timeout_seconds = 20};
  options.store_file = task.rendezvous_file();
  return gloo_communicator(options);
}

/// words: the policy.
int train_role(const ChildTask& task) {
  const auto leaders = connect(task);
  const auto policy = policy_named(task.words[0]);
  RankWorld world(*leaders, policy->server());
  ToyResult result;
  world.run([&](Hub& hub) { result = toy_replica(hub, *policy, kProblem, kOptions); });
  std::cout << in_words(result, world.counts(task.rank)) << std::endl;
  return 0;
}

/// Exchanges values until an error.
int loop_role(const ChildTask& task) {
  const auto leaders = connect(task);
  const auto policy = policy_named("easgd");
  try {
    RankWorld world(*leaders, policy->server());
    std::cout << "ready" << std::endl;
    world.run([&](Hub& hub) { toy_replica(hub, *policy, kProblem, {.steps = {100'000'000}, .learning_rate = 1e-6}); });
  } catch (const Error& error) {
    std::cout << error.what() << std::endl;
    return error.blame() == Blame::run ? kEndedByError : 1;
  }
  return 0;
}

class ReplicaProcesses : public ::testing::Test {
  void SetUp() override {
    if (!gloo_available()) GTEST_SKIP() << "this build has no gloo";
  }
};

TEST_F(ReplicaProcesses, GiveTheResultsOfThreads) {
  for (const std::string name : {"local-sgd", "fedavg"}) {
    Children children("train", kReplicas, {name});
    const auto policy = policy_named(name);
    ThreadWorld threads(kReplicas, policy->server());
    const auto expected = train_toy(threads, *policy, kProblem, kOptions);
    const std::vector<ChildEnd> ends = children.wait(60);
    for (size_t r = 0; r < kReplicas; ++r) {
      EXPECT_EQ(ends[r].exit_code, 0) << ends[r].output;
      EXPECT_THAT(ends[r].output, HasSubstr(in_words(expected[r], expected[r].counts))) << name;
    }
  }
}

TEST_F(ReplicaProcesses, OneThatIsKilledIsNamedByTheOthersWithinSeconds) {
  for (const int victim : {1, 0}) {
    Children children("loop", kReplicas);
    for (int rank = 0; rank < kReplicas; ++rank) ASSERT_TRUE(children.wait_for_output(rank, "ready", 20));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const auto killed = std::chrono::steady_clock::now();
    children.signal(victim, SIGKILL);
    const std::vector<ChildEnd> ends = children.wait(20);
    EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(8));
    for (int rank = 0; rank < kReplicas; ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(ends[size_t(rank)].exit_code, kEndedByError) << ends[size_t(rank)].output;
      EXPECT_THAT(ends[size_t(rank)].output, HasSubstr("rank " + std::to_string(victim) + " is gone"));
    }
  }
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::test_support::process_main(argc, argv,
                                             {{"train", trireme::train_role}, {"loop", trireme::loop_role}});
}
