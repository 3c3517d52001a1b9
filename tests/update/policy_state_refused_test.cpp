// Saved states of policies that do not fit the run, and runs in which only the server or only replicas are resumed.
#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "toy_run.h"
#include "update/diloco.h"
#include "update/easgd.h"
#include "update/federated.h"
#include "update/local_sgd.h"
#include "update/policy_state.h"

namespace trireme {
namespace {

const ToyRun kElastic{.make = with_replicas(easgd, EasgdOptions{.period = 2, .shards = 2})};

ToyCheckpoint checkpoint_of(const ToyRun& run) {
  ToyCheckpoint checkpoint;
  auto policy = run.make(run.replicas());
  run.train(*policy, {.stops = [](int, int64_t step) { return step == 5; }, .checkpoint = &checkpoint});
  return checkpoint;
}

void expect_refused(const ToyRun& run, const ToyCheckpoint& checkpoint, const std::vector<std::string>& parts) {
  expect_error(Blame::user, parts, [&] {
    auto policy = run.make(run.replicas());
    run.train(*policy, {.from = &checkpoint});
  });
}

TEST(PolicyStates, OfAnotherPolicyOrOtherOptionsAreRefused) {
  const ToyCheckpoint checkpoint = checkpoint_of(kElastic);
  ToyRun other = kElastic;
  other.make = with_replicas(easgd, EasgdOptions{.period = 4, .shards = 2});
  expect_refused(other, checkpoint,
                 {"update policy easgd: the checkpoint has period=2, this run period=4; resume with the policy"});
  other.make = with(local_sgd, LocalSgdOptions{});
  expect_refused(other, checkpoint, {"update policy: the checkpoint has easgd, this run local-sgd; resume"});
}

TEST(PolicyStates, AllOptionsThatDifferAreNamed) {
  check_same_policy("c", "federated,mu=0,tau=1", "federated,mu=0,tau=1");
  expect_error(Blame::user, {"c: update policy federated: the checkpoint has mu=0, tau=1, this run mu=0.1, tau=2; "},
               [] { check_same_policy("c", "federated,seed=1,mu=0,tau=1", "federated,seed=1,mu=0.1,tau=2"); });
  expect_error(Blame::user, {": the checkpoint has no control_variates, this run control_variates; "},
               [] { check_same_policy("c", "federated,mu=0", "federated,mu=0,control_variates"); });
  expect_error(Blame::user, {": the checkpoint has compression=sign, this run no compression; "},
               [] { check_same_policy("c", "gossip,every=1 epochs,compression=sign", "gossip,every=1 epochs"); });
}

TEST(PolicyStates, OfOtherReplicasAreRefused) {
  ToyCheckpoint checkpoint = checkpoint_of(kElastic);
  std::swap(checkpoint.parts[0], checkpoint.parts[1]);
  expect_refused(kElastic, checkpoint,
                 {"update policy's state of replica", "it belongs to replica 1 of 3, this is replica 0 of 3"});
  ToyRun fewer = kElastic;
  fewer.seconds = {1, 1};
  expect_refused(fewer, checkpoint_of(kElastic),
                 {"it belongs to replica 0 of 3, this is replica 0 of 2", "resume with the experiment"});
}

TEST(PolicyStates, OfOtherSizesOrKindsAreRefused) {
  const ToyCheckpoint good = checkpoint_of(kElastic);
  ToyCheckpoint bad = good;
  bad.policy.weights["server"] = at::zeros({12}, at::kDouble);
  expect_refused(kElastic, bad, {"update policy's state, server: \"server\"", "elements of the state"});
  bad.policy.weights["server"] = at::zeros({11}, at::kFloat);
  expect_refused(kElastic, bad, {"\"server\"", "type Float, this run of type Double"});
  bad = good;
  bad.policy.statistics["server"].clear();
  expect_refused(kElastic, bad, {"\"server\"", "other batch norms"});
  bad = good;
  bad.policy.integers.erase("server versions");
  expect_refused(kElastic, bad, {"\"server versions\"", "no such value"});
  bad = good;
  bad.parts[0].integers["versions read"] = {1, 2, 3};
  expect_refused(kElastic, bad, {"state of replica 0", "\"versions read\"", "3 numbers, this run 2"});
  bad = good;
  bad.parts[0].reals["something"] = {1};
  expect_refused(kElastic, bad, {"\"something\"", "has no such value"});
  const ToyRun outer{.make = with(diloco, DilocoOptions{.every = 4})};
  bad = checkpoint_of(outer);
  bad.parts[0].weights["outer momentum"] = at::zeros({12}, at::kDouble);
  expect_refused(outer, bad, {"\"outer momentum\"", "12 elements, this run 11"});
}

TEST(PolicyStates, TextsAndTensorsOfAnotherKindAreRefused) {
  PolicyStateParts parts = parts_of(checkpoint_of(kElastic).policy);
  parts.tensors.emplace_back("optimizer/m", at::zeros({1}));
  expect_error(Blame::user, {"policy.json", "\"optimizer/m\"", "not a tensor of an update policy"},
               [&] { policy_state_from(parts, "policy.json"); });
  parts.tensors.clear();
  expect_error(Blame::user, {"\"statistics/server/0/mean\"", "missing"},
               [&] { policy_state_from(parts, "policy.json"); });
  parts.text = "{";
  expect_error(Blame::user, {"policy.json", "cannot be read"}, [&] { policy_state_from(parts, "policy.json"); });
}

// -- with a server that continues

TEST(PolicyStates, WithoutTheServersThoseOfReplicasAreRefused) {
  const ToyCheckpoint checkpoint = checkpoint_of(kElastic);
  auto policy = kElastic.make(3);
  ThreadWorld world(3, policy->server());
  expect_error(Blame::run, {"the replica was resumed, but the server was not"}, [&] {
    run_replicas(world, [&](Hub& hub) {
      ReplicaState state = copy_of(checkpoint.replicas[size_t(hub.replica())]);
      policy->for_replica(hub)->resume(checkpoint.parts[size_t(hub.replica())], state);
    });
  });
}

TEST(PolicyStates, ReplicasWithoutAnyBeginWithTheServersWeights) {
  const ToyCheckpoint checkpoint = checkpoint_of(kElastic);
  auto policy = kElastic.make(3);
  policy->resume(checkpoint.policy, 0);
  ThreadWorld world(3, policy->server());
  run_replicas(world, [&](Hub& hub) {
    ReplicaState state = copy_of(checkpoint.replicas[size_t(hub.replica())]);
    for (at::Tensor& w : state.weights) w.zero_();
    auto replica = policy->for_replica(hub);
    if (hub.replica() == 1) {  // only this replica has kept its part
      replica->resume(checkpoint.parts[1], state);
      EXPECT_EQ(to_vector(state.weights), Vector(11)) << "the caller's";
      return;
    }
    replica->begin(state);
    EXPECT_EQ(to_vector(state.weights), to_vector({checkpoint.policy.weights.at("server")}));
    EXPECT_TRUE(at::equal(state.statistics[0].mean, checkpoint.policy.statistics.at("server")[0].mean));
    EXPECT_EQ(hub.counts().visits, 0);
  });
}

TEST(PolicyStates, AClientWithoutAnyBeginsItsRoundAgain) {
  const FederatedOptions options{.rounds = {.clients = 2, .rounds = 2}, .local = steps(3)};
  const ToyRun run{.make = with(federated, options), .seconds = {1, 1}, .steps = {kMoreThanEnough}};
  ToyCheckpoint checkpoint;
  auto first = federated(options);
  run.train(*first, {.stops = [](int, int64_t step) { return step == 2; }, .checkpoint = &checkpoint});
  auto second = federated(options);
  second->resume(checkpoint.policy, 0);
  const Vector all_over =
      run.train(*second, {}).results[0].weights;  // from step 0 with the server's weights, the initial ones
  auto third = federated(options);
  EXPECT_EQ(all_over, run.train(*third, {}).results[0].weights);
}

}  // namespace
}  // namespace trireme
