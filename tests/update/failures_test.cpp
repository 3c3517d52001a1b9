// Replicas that fail on the modelled clock: some return and are waited for, some never return.
#include "update/failures.h"

#include <gtest/gtest.h>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/async_average.h"
#include "update/diloco.h"
#include "update/downpour.h"
#include "update/easgd.h"
#include "update/federated.h"
#include "update/hub/virtual_world.h"
#include "update/local_sgd.h"
#include "update/partial.h"
#include "update/shat.h"
#include "worlds.h"

namespace trireme {
namespace {

const Length kEachStep{1, Length::Unit::steps};

std::vector<ToyResult> train_virtually(UpdatePolicy& policy, const ToyProblem& problem, const ToyOptions& options,
                                       std::vector<double> seconds, std::vector<Failure> failures,
                                       const VirtualLinks& links = {}) {
  const FixedTimes times(seconds);
  VirtualWorld world(int(seconds.size()), times, links, policy.server(),
                     {Failures(std::move(failures)), policy.outlives_replicas()});
  return train_toy(world, policy, problem, options);
}

TEST(Failures, WorkThatIsHitBeginsAnew) {
  const Failures failures({{.replica = 1, .at = 10, .back_after = 5},
                           {.replica = 1, .at = 3, .back_after = 2},
                           {.replica = 1, .at = 40},
                           {.replica = 2, .at = 0, .back_after = 1}});
  const auto end = [&](int replica, double begin, double seconds) {
    return failures.work(replica, begin, seconds).end;
  };
  EXPECT_EQ(end(0, 2, 50), 52) << "another's";
  EXPECT_EQ(end(1, 0, 3), 3) << "through when it fails";
  EXPECT_EQ(end(1, 0, 4), 9) << "lost at 3, begun again at 5";
  EXPECT_EQ(end(1, 4, 1), 6) << "away when it would have begun";
  EXPECT_EQ(end(1, 5, 1), 6) << "back";
  EXPECT_EQ(end(1, 2, 6), 21) << "hit twice: it would have been through at 11";
  EXPECT_EQ(end(2, 0, 1), 2);
  EXPECT_FALSE(failures.work(1, 30, 10).is_lost);
  EXPECT_TRUE(failures.work(1, 30, 10.5).is_lost);
  EXPECT_EQ(end(1, 30, 10.5), 40) << "when it fails";
  EXPECT_EQ(end(1, 50, 1), 50) << "failed before it began";
}

TEST(Failures, PoliciesThatNeedAllWait) {
  const ToyProblem problem{.seed = 81};
  const ToyOptions options{.steps = {6}, .learning_rate = kRate};
  const auto run = [&](std::vector<Failure> failures) {
    const auto policy = local_sgd({.every = {2, Length::Unit::steps}});
    return train_virtually(*policy, problem, options, {1, 1, 1}, std::move(failures));
  };
  const auto whole = run({}), failed = run({{.replica = 1, .at = 2.5, .back_after = 1.2}});
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(failed[r].weights, whole[r].weights) << "what it lost it has made again";
    EXPECT_EQ(whole[r].seconds, 6);
    EXPECT_NEAR(failed[r].seconds, 7.7, 1e-12) << "half a step lost, 1.2 s away";
    EXPECT_NEAR(failed[r].counts.idle_seconds, r == 1 ? 0 : 1.7, 1e-12);
    EXPECT_EQ(failed[r].counts.compute_seconds, 6);
  }
}

TEST(Failures, ALostReplicaEndsPoliciesThatNeedAll) {
  const ToyProblem problem{.seed = 82};
  for (const auto& policy : {local_sgd({.every = {2, Length::Unit::steps}}), diloco({.every = 2})})
    expect_error(Blame::run, {"replica 1", "2.50 s", "never returns", "back_after"}, [&] {
      train_virtually(*policy, problem, {.steps = {6}, .learning_rate = kRate}, {1, 1, 1}, {{.replica = 1, .at = 2.5}});
    });
}

/// Replica 1 has made its step, and waits for replica 0, when it fails.
TEST(Failures, AFailureDuringAWaitIsReportedWithItsTime) {
  const ToyProblem problem{.seed = 82};
  const auto policy = local_sgd({.every = kEachStep});
  expect_error(Blame::run, {"replica 1", "after 2.50 s"}, [&] {
    train_virtually(*policy, problem, {.steps = {6}, .learning_rate = kRate}, {4, 1}, {{.replica = 1, .at = 2.5}});
  });
}

TEST(Failures, AsynchronousReplicasContinueWithoutLostOnes) {
  const ToyProblem problem{.seed = 83};
  // A replica that is lost in its fourth step has the same effect as one that makes three steps.
  const auto run = [&](std::vector<int64_t> steps, std::vector<Failure> failures) {
    const auto policy = async_average({.every = kEachStep, .share = AsyncAverageOptions::Share::by_samples});
    return train_virtually(*policy, problem, {.steps = std::move(steps), .learning_rate = kRate}, {1, 1, 1},
                           std::move(failures));
  };
  const auto lost = run({6}, {{.replica = 2, .at = 3.5}}), shorter = run({6, 6, 3}, {});
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(lost[r].weights, shorter[r].weights);
    EXPECT_EQ(lost[r].seconds, 6);
    EXPECT_EQ(lost[r].counts.idle_seconds, 0);
  }
  EXPECT_EQ(lost[2].steps, 3);
}

TEST(Failures, LastAveragesAreOfThoseThatAreLeft) {
  const ToyProblem problem{.seed = 84};
  const auto policy = async_average({});
  std::vector<Vector> last(3);
  ToyOptions options{.steps = {5}, .learning_rate = kRate};
  options.watch = [&](int replica, int64_t step, ReplicaState& state, ReplicaPolicy&, Hub&) {
    if (step == 4) last[size_t(replica)] = to_vector(state.weights);
  };
  // The slow replica is lost while the others wait for it at the end.
  const VirtualLinks links{.replicas = {{.bandwidth = 1e3, .latency = 0}}};
  const auto results = train_virtually(*policy, problem, options, {1, 1.5, 4}, {{.replica = 2, .at = 9}}, links);
  Vector mean(last[0].size());
  for (size_t d = 0; d < mean.size(); ++d) mean[d] = (last[0][d] + last[1][d]) / 2;
  EXPECT_LT(largest_difference(results[0].weights, mean), 1e-15);
  EXPECT_EQ(results[0].weights, results[1].weights);
  EXPECT_GT(results[0].counts.idle_seconds, 3) << "from its end to the failure";
}

TEST(Failures, AQuorumIsOfThoseThatAreLeft) {
  const ToyProblem problem{.seed = 85};
  const auto policy = partial_average({.every = kEachStep}, 3);
  const auto results = train_virtually(*policy, problem, {.steps = {6}, .learning_rate = kRate}, {1, 1, 10},
                                       {{.replica = 2, .at = 4.5}});
  for (size_t r = 0; r < 2; ++r)
    EXPECT_EQ(results[r].seconds, 4.5 + 5) << "the first round waits until the third is lost";
  EXPECT_EQ(results[0].weights, results[1].weights);
}

TEST(Failures, EveryServerOutlivesAReplica) {
  const ToyProblem problem{.seed = 86};
  const auto all = [&](int lost) {
    const std::vector<Failure> failures = {{.replica = lost, .at = 2.2}, {.replica = 3, .at = 5, .back_after = 1}};
    std::vector<Vector> weights;
    for (const auto& policy : {easgd({.period = 2}, 4), downpour({.warm_start = 3}, 4), shat({.period = 2}, 4)}) {
      const auto results =
          train_virtually(*policy, problem, {.steps = {8}, .learning_rate = 0.01}, {1, 1.3, 0.7, 2}, failures);
      for (int r = 0; r < 4; ++r) {
        if (r == lost) continue;
        EXPECT_EQ(results[size_t(r)].steps, 8);
        weights.push_back(results[size_t(r)].weights);
        EXPECT_EQ(weights.back(), results[lost == 1 ? 0u : 1u].weights);
      }
    }
    return weights;
  };
  for (const int lost : {0, 1}) EXPECT_EQ(all(lost), all(lost)) << "the same failures, the same bits";
}

std::vector<RoundRecord> federated_rounds(RoundOptions rounds, std::vector<Failure> failures,
                                          std::vector<ToyResult>* results = nullptr) {
  const ToyProblem problem{.seed = 87};  // three steps per epoch
  const auto policy = federated({.rounds = rounds});
  auto trained =
      train_virtually(*policy, problem, {.steps = {1000}, .learning_rate = kRate}, {1, 1, 1}, std::move(failures));
  if (results) *results = std::move(trained);
  return policy->rounds();
}

TEST(Failures, AFederatedClientThatIsLostHasLeft) {
  std::vector<ToyResult> results;
  const auto records = federated_rounds({.clients = 3, .rounds = 4}, {{.replica = 2, .at = 4.5}}, &results);
  ASSERT_EQ(records.size(), 4u);
  for (int t = 0; t < 4; ++t) {
    EXPECT_EQ(records[size_t(t)].selected, t < 2 ? 3 : 2);
    EXPECT_EQ(records[size_t(t)].answered, t < 1 ? 3 : 2);
    EXPECT_EQ(records[size_t(t)].seconds, 3 * (t + 1));
  }
  EXPECT_EQ(results[0].weights, results[1].weights);
}

TEST(Failures, ARoundWaitsForAFederatedClientUntilItsTimeIsUp) {
  const auto patient = federated_rounds({.clients = 3, .rounds = 2}, {{.replica = 2, .at = 3.5, .back_after = 10}});
  EXPECT_EQ(patient[1].answered, 3);
  EXPECT_EQ(patient[1].seconds, 16.5) << "back at 13.5, and three steps";
  const auto records =
      federated_rounds({.clients = 3, .rounds = 5, .timeout = 4}, {{.replica = 2, .at = 3.5, .back_after = 10}});
  EXPECT_EQ(records[0].seconds, 3);
  for (int t = 1; t < 4; ++t) {
    EXPECT_EQ(records[size_t(t)].answered, 2);
    EXPECT_EQ(records[size_t(t)].seconds, 3 + 4 * t);
    EXPECT_EQ(records[size_t(t)].late, 0);
  }
  EXPECT_EQ(records[4].late, 1) << "what it made of the second round";
}

}  // namespace
}  // namespace trireme
