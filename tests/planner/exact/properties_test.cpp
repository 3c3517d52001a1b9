// Properties of the exact planner's answers for any layer costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "../../base/expect_error.h"
#include "brute_force.h"
#include "fake_costs.h"
#include "plan/named.h"
#include "plan/strategy.h"
#include "planner/exact/configurations.h"
#include "planner/exact/least_memory.h"
#include "planner/exact/sensitivity.h"
#include "zoo/zoo.h"

namespace trireme {
namespace {

constexpr double kRounding = 1 + 1e-9;

Model zoo_model(uint64_t which) {
  switch (which % 3) {
    case 0: return make_model({"mlp", {8}, 4, {{"hidden", 16}, {"depth", 4}}});
    case 1: return make_model({"mnist-convnet", {1, 28, 28}, 10, {}});
    default: return make_model({"tied-mlp", {8}, 4, {{"hidden", 8}}});
  }
}

TEST(FindPlan, NeverSlowerThanANamedPlan) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    const Model model = zoo_model(seed);
    const Cluster cluster = random_cluster(random, 4);
    const FakeCosts costs(model, seed);
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 32};
    request.layer_classes = each_its_own(model);
    request.space.schedules = {"1f1b", "gpipe", "zero-bubble", "interleaved", "zero-bubble-v"};
    request.space.shardings = {OptimizerSharding::none, OptimizerSharding::zero1, OptimizerSharding::zero2,
                               OptimizerSharding::zero3};
    const PlanAnswer answer = find_plan(request);
    ASSERT_TRUE(answer.best);
    const ModelFacts facts(request);
    const StepModel step(facts);
    for (const std::string& name : known_strategies()) {
      Plan plan;
      try {
        plan = named_plan(name, model, cluster, request.batch, {});
      } catch (const Error&) {
        continue;  // too few layers for the stages, or no degree divides a layer
      }
      if (step.unknown(plan)) continue;
      ++compared;
      EXPECT_LE(answer.best->objective, step.predict(plan).seconds * kRounding) << "seed " << seed << ", " << name;
    }
  }
  EXPECT_GT(compared, 60);
}

double best_seconds(const Model& model, const Cluster& cluster, uint64_t seed) {
  const FakeCosts costs(model, seed);
  PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 16};
  request.layer_classes = each_its_own(model);
  const PlanAnswer answer = find_plan(request);
  return answer.best ? answer.best->objective : std::numeric_limits<double>::infinity();
}

TEST(FindPlan, MoreDevicesFasterLinksOrMoreMemoryNeverHurt) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    const Model model = random_model(random, 6, 8, seed % 2 == 0, false);
    Cluster cluster = random_cluster(random, 5);
    for (Device& device : cluster.devices) device.memory = 4000;
    const double before = best_seconds(model, cluster, seed);

    Cluster fewer = cluster;
    fewer.devices.resize(4);
    EXPECT_LE(before, best_seconds(model, fewer, seed) * kRounding) << "devices, seed " << seed;
    Cluster faster = cluster;
    for (ClusterNode& node : faster.nodes) node.link.bandwidth *= 2;
    faster.network.bandwidth *= 2;
    EXPECT_LE(best_seconds(model, faster, seed), before * kRounding) << "bandwidth, seed " << seed;
    Cluster larger = cluster;
    for (Device& device : larger.devices) device.memory = 8000;
    EXPECT_LE(best_seconds(model, larger, seed), before * kRounding) << "memory, seed " << seed;
  }
}

TEST(FindPlan, LeastMemoryAndLeastMoneyEqualBruteForce) {
  for (uint64_t seed = 1; seed <= 15; ++seed) {
    Random random(seed);
    const Model model = random_model(random, 5, 5, seed % 2 == 0, false);
    const Cluster cluster = random_cluster(random, 3);
    const FakeCosts costs(model, seed);
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 8};
    request.layer_classes = each_its_own(model);
    request.space.micro_batches = {1, 2};
    request.space.schedules = {"1f1b"};
    BruteForce brute(request);
    double bytes = std::numeric_limits<double>::infinity(), money = bytes;
    brute.all(1000000, [&](const Plan& plan) {
      const Prediction p = brute.step().predict(plan);
      bytes = std::min(bytes, p.fullest());
      money = std::min(money, p.money);
    });
    request.objective = Objective::cost;
    EXPECT_NEAR(find_plan(request).best->objective, money, 1e-9 * money) << "seed " << seed;
    request.objective = Objective::memory;
    const PlanAnswer smallest = find_plan(request);
    EXPECT_NEAR(smallest.best->objective, bytes, 2e-3 * bytes) << "seed " << seed;
    EXPECT_LE(smallest.lower_bound, bytes * kRounding) << "seed " << seed;
  }
}

/// Equal blocks are searched once; searching them one by one must give the same answer.
TEST(FindPlan, EqualBlocksAreRecognised) {
  ModelBuilder b("blocks");
  NodeId x = b.input("data", {8});
  const NodeId target = b.input("target", {});
  for (int i = 0; i < 5; ++i) {
    const std::string name = fmt::format("h.{}", i);
    const NodeId y = b.layer<Relu>({b.layer<Linear>({x}, name + ".fc", 8, 8)}, name + ".relu");
    x = b.layer<Add>({x, b.layer<Linear>({y}, name + ".out", 8, 8)}, name + ".add");
  }
  const Model model = b.finish(x, b.layer<SoftmaxCrossEntropy>({x, target}, "loss"));
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    Random random(seed);
    Cluster cluster = random_cluster(random, 4);
    for (Device& device : cluster.devices) device.memory = 6000 + int64_t(seed) * 500;
    const FakeCosts costs(model, seed, 1e-4, equal_layers(model));
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 16};
    request.space.micro_batches = {1, 4};
    const PlanAnswer together = find_plan(request);
    request.layer_classes = each_its_own(model);
    const PlanAnswer apart = find_plan(request);
    ASSERT_EQ(together.best.has_value(), apart.best.has_value()) << "seed " << seed;
    if (!together.best) continue;
    EXPECT_NEAR(together.best->objective, apart.best->objective, 1e-9 * apart.best->objective) << "seed " << seed;
    EXPECT_EQ(together.proof, "optimal under the step model");
  }
}

constexpr Objective kObjectives[] = {Objective::time, Objective::memory, Objective::cost};

/// The bound is a lower bound, and the gap stays within the tolerance.
TEST(FindPlan, StopsWithinATolerance) {
  int faster = 0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Random random(seed);
    const Model model = random_model(random, 6, 8, seed % 2 == 0, false);
    Cluster cluster = random_cluster(random, 4);
    for (Device& device : cluster.devices) device.memory = 20000;
    const FakeCosts costs(model, seed);
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 16};
    request.layer_classes = each_its_own(model);
    for (const Objective objective : kObjectives) {
      request.objective = objective;
      request.tolerance = 0;
      const PlanAnswer best = find_plan(request);
      ASSERT_TRUE(best.best) << "seed " << seed;
      for (const double tolerance : {0.02, 0.3}) {
        request.tolerance = tolerance;
        const PlanAnswer answer = find_plan(request);
        EXPECT_LE(answer.gap(), tolerance * kRounding) << "seed " << seed;
        EXPECT_LE(answer.lower_bound, best.best->objective * kRounding) << "seed " << seed;
        EXPECT_GE(answer.best->objective * kRounding, best.lower_bound) << "seed " << seed;
        faster += objective == Objective::time && answer.labels < best.labels;
      }
    }
  }
  EXPECT_GT(faster, 0) << "a tolerance saves work somewhere";
}

TEST(FindPlan, IsTruthfulWhenTheTimeIsUp) {
  int ended = 0, empty = 0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Random random(seed);
    const Model model = random_model(random, 6, 8, seed % 2 == 0, false);
    const Cluster cluster = random_cluster(random, 4);
    const FakeCosts costs(model, seed);
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 16};
    request.layer_classes = each_its_own(model);
    for (const Objective objective : kObjectives) {
      request.objective = objective;
      request.time_limit = {};
      const PlanAnswer best = find_plan(request);
      for (const double limit : {0.0, 1e-4, 1e-3, 5e-3})
        for (const bool knows_one : {false, true}) {
          request.time_limit = limit;
          request.known.clear();
          if (knows_one) request.known.push_back(named_plan("tensor", model, cluster, 16, {}));
          const PlanAnswer answer = find_plan(request);
          EXPECT_FALSE(answer.shortfall) << "something fits, seed " << seed;
          EXPECT_LE(answer.lower_bound, best.best->objective * kRounding) << "seed " << seed << ", limit " << limit;
          if (!answer.best) {
            EXPECT_EQ(answer.proof, "no plan was found within the time limit");
            ++empty;
            continue;
          }
          EXPECT_GE(answer.best->objective * kRounding, best.lower_bound) << "seed " << seed << ", limit " << limit;
          if (answer.gap() <= 2e-3) continue;  // the search for least memory stops at this gap anyway
          EXPECT_THAT(answer.proof, ::testing::HasSubstr("the time limit ended the search"));
          ++ended;
        }
    }
  }
  EXPECT_GT(ended, 0);
  EXPECT_GT(empty, 0);
}

TEST(FindPlan, SaysWhatIsMissingAndWhatWouldFit) {
  const Model model = zoo_model(1);
  Cluster cluster = Cluster::uniform(2);
  const FakeCosts costs(model, 1);
  PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 64};
  request.layer_classes = each_its_own(model);
  request.optimizer_tensors = 2;
  request.space.may_recompute = false;
  request.space.micro_batches = {1};
  request.objective = Objective::memory;
  const double least = find_plan(request).best->objective;
  request.objective = Objective::time;
  for (Device& device : cluster.devices) device.memory = int64_t(0.8 * least);
  const PlanAnswer answer = find_plan(request);
  ASSERT_FALSE(answer.best);
  ASSERT_TRUE(answer.shortfall);
  EXPECT_EQ(answer.proof, "no plan of the space fits");
  EXPECT_NEAR(answer.shortfall->missing, 0.2 * least, 0.01 * least);
  const DeviceMemory& fullest = answer.shortfall->nearest.prediction.memory[size_t(answer.shortfall->stage)];
  EXPECT_NEAR(fullest.total(), least, 2e-3 * least);
  EXPECT_THAT(answer.shortfall->changes, ::testing::Contains(::testing::HasSubstr("a batch of 32 instead of 64")));
  EXPECT_THAT(answer.shortfall->changes.back(), ::testing::HasSubstr("25."));
  EXPECT_TRUE(answer.shortfall->is_least);
}

TEST(FindPlan, ReportsTheLeastMissingBytesAtTheTimeLimit) {
  const Model model = zoo_model(1);
  Cluster cluster = Cluster::uniform(2);
  const FakeCosts costs(model, 1);
  PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 64};
  request.layer_classes = each_its_own(model);
  request.objective = Objective::memory;
  const RatedPlan smallest = *find_plan(request).best;
  request.objective = Objective::time;
  for (Device& device : cluster.devices) device.memory = int64_t(0.8 * smallest.objective);
  request.known = {named_plan("data", model, cluster, 64, {}), smallest.plan,
                   named_plan("single", model, cluster, 64, {})};
  request.time_limit = 0;
  const Shortfall shortfall = explain_shortfall(request);
  EXPECT_NEAR(shortfall.missing, 0.2 * smallest.objective, 1)
      << "of all plans that are known, the smallest lacks least";
  EXPECT_FALSE(shortfall.is_least);
  ASSERT_EQ(shortfall.changes.size(), 2u);
  EXPECT_THAT(shortfall.changes[0], ::testing::HasSubstr("--set batch="))
      << "the plans that are known, with fewer samples";
  EXPECT_THAT(shortfall.changes[1], ::testing::HasSubstr("25."));
}

TEST(WhatIf, AnswersForTheChangedCluster) {
  int tighter = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    Random random(seed);
    const Model model = random_model(random, 6, 8, seed % 2 == 0, false);
    const Cluster cluster = random_cluster(random, 4);
    const FakeCosts costs(model, seed);
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 16};
    request.layer_classes = each_its_own(model);
    const PlanAnswer known = find_plan(request);
    const RatedPlan& best = *known.best;
    const std::vector<WhatIf> answers = what_if(request, known);
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_LE(answers[0].answer.best->objective, best.objective * kRounding) << "seed " << seed;
    // The same change, made by the test.
    Cluster faster = cluster;
    for (ClusterNode& node : faster.nodes)
      node.link = {2 * node.link.bandwidth, node.link.latency / 2, node.link.shared};
    faster.network = {2 * faster.network.bandwidth, faster.network.latency / 2, faster.network.shared};
    EXPECT_NEAR(answers[0].answer.best->objective, find_plan(with_cluster(request, faster)).best->objective,
                1e-9 * best.objective);
    if (!answers[1].answer.best) continue;  // no plan fits into half the memory
    ++tighter;
    EXPECT_GE(answers[1].answer.best->objective * kRounding, best.objective) << "seed " << seed;
    EXPECT_LE(answers[1].answer.best->prediction.fullest(), best.prediction.fullest() / 2 * kRounding)
        << "seed " << seed;
  }
  EXPECT_GT(tighter, 0);
}

TEST(WhatIf, BeginsWithTheKnownPlanAndReportsTheTimeLimit) {
  Random random(3);
  const Model model = random_model(random, 6, 8, true, false);
  Cluster cluster = random_cluster(random, 4);
  const FakeCosts costs(model, 3);
  PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 16};
  request.layer_classes = each_its_own(model);
  const PlanAnswer known = find_plan(request);
  const RatedPlan& best = *known.best;
  request.time_limit = 0;
  std::vector<WhatIf> answers = what_if(request, known);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_LE(answers[0].answer.best->objective, best.objective) << "the plan that is known, rated on faster links";
  EXPECT_TRUE(answers[0].answer.out_of_time);
  EXPECT_FALSE(answers[0].tightens);
  EXPECT_TRUE(answers[1].tightens);
  EXPECT_FALSE(answers[1].answer.best) << "half of what the plan needs";
  EXPECT_TRUE(answers[1].answer.out_of_time);
  // The plan fits into half the memory, so nothing can be better and no search is needed.
  for (Device& device : cluster.devices) device.memory = int64_t(3 * best.prediction.fullest());
  answers = what_if(request, known);
  EXPECT_EQ(answers[1].answer.best->plan, best.plan);
  EXPECT_EQ(answers[1].answer.best->objective, best.objective);
  EXPECT_EQ(answers[1].answer.lower_bound, known.lower_bound);
  EXPECT_FALSE(answers[1].answer.out_of_time);
  request.objective = Objective::memory;
  request.time_limit = {};
  EXPECT_EQ(what_if(request, find_plan(request)).size(), 1u) << "memory does not depend on links";
}

/// The optimum over all divisors of the batch and all powers of two is the best of the optima of single numbers.
TEST(FindPlan, SearchesEveryDivisorOfTheBatch) {
  int beyond_powers = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Random random(seed);
    const Model model = random_model(random, 6, 8, false, false);
    const Cluster cluster = random_cluster(random, 3);
    const FakeCosts costs(model, seed, /*launch=*/1e-5);
    PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 18};
    request.layer_classes = each_its_own(model);
    EXPECT_EQ(micro_batches_of(request), (std::vector<int>{1, 2, 3, 4, 6, 8, 9, 16, 18}));
    const PlanAnswer all = find_plan(request);
    double best = std::numeric_limits<double>::infinity(), of_powers = best;
    for (const int m : micro_batches_of(request)) {
      request.space.micro_batches = {m};
      const double seconds = find_plan(request).best->objective;
      best = std::min(best, seconds);
      if ((m & (m - 1)) == 0) of_powers = std::min(of_powers, seconds);
      request.space.micro_batches = {};
    }
    EXPECT_NEAR(all.best->objective, best, 1e-12 * best) << seed;
    if (best < of_powers * (1 - 1e-6)) ++beyond_powers;
  }
  EXPECT_GT(beyond_powers, 0) << "some optimum has a number of micro-batches that is no power of two";
}

TEST(FindPlan, TakesKnownPlansAndRefusesAnEmptySpace) {
  const Model model = zoo_model(0);
  const Cluster cluster = Cluster::uniform(2);
  const FakeCosts costs(model, 1);
  PlanRequest request{.model = model, .cluster = cluster, .costs = costs, .batch = 8};
  request.layer_classes = each_its_own(model);
  request.space.schedules = {"gpipe"};
  request.space.micro_batches = {8};
  request.space.stage_sizes = {1};
  const double narrow = find_plan(request).best->objective;
  request.known = {named_plan("data", model, cluster, 8, {})};
  const PlanAnswer answer = find_plan(request);
  EXPECT_LT(answer.best->objective, narrow);
  EXPECT_EQ(answer.best->plan.name, "data");
  request.space.most_tensor = 1;
  request.known = {named_plan("tensor", model, cluster, 8, {})};  // known plans may lie outside the space
  EXPECT_LE(find_plan(request).best->objective,
            StepModel(ModelFacts(request)).predict(request.known[0]).seconds * kRounding);
  request.space.schedules = {"pipedream"};
  expect_error(Blame::user, {"pipedream", "no formula"}, [&] { find_plan(request); });
  request.space.schedules = {"gpipe"};
  request.space.micro_batches = {9};
  expect_error(Blame::user, {"9 micro-batches", "8 samples"}, [&] { find_plan(request); });
}

}  // namespace
}  // namespace trireme
