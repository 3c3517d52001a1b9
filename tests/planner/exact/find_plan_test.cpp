// Compares the exact planner with every plan of random small spaces, and checks properties of its answers.
#include "planner/exact/find_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "brute_force.h"
#include "fake_costs.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMostPlans = 20000;

struct Case {
  Case(Model m, Cluster devices, uint64_t seed, double launch)
      : model(std::move(m)),
        cluster(std::move(devices)),
        costs(model, seed, launch),
        request{.model = model, .cluster = cluster, .costs = costs} {}

  Model model;
  Cluster cluster;
  FakeCosts costs;
  PlanRequest request;
};

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random() % values.size()];
}

std::unique_ptr<Case> random_case(uint64_t seed, bool branches) {
  Random random(seed);
  const int layers = 2 + int(random() % 8), devices = one_of(random, {1, 2, 3, 3, 4, 4, 4});
  const bool ties = random() % 4 == 0;
  // There are many splits, so use them only with few layers.
  const bool splits = layers <= 5;
  auto c = std::make_unique<Case>(random_model(random, layers, splits ? 4 : 5, branches, ties),
                                  random_cluster(random, devices), seed, one_of(random, {1e-5, 1e-3}));
  PlanRequest& r = c->request;
  r.batch = one_of<int64_t>(random, {4, 7, 16});
  r.optimizer_tensors = int(random() % 3);
  r.layer_classes = each_its_own(c->model);
  PlanSpace& space = r.space;
  space.micro_batches = {one_of(random, {1, 2, 4})};
  if (random() % 3 == 0) space.micro_batches.push_back(3);
  space.schedules = {
      one_of<std::string>(random, {"1f1b", "gpipe", "1f1b", "zero-bubble", "interleaved", "zero-bubble-v"})};
  const bool chunked = space.schedules[0] == "interleaved" || space.schedules[0] == "zero-bubble-v";
  if (chunked) space.schedules.push_back("1f1b");
  space.shardings = {one_of(
      random, {OptimizerSharding::none, OptimizerSharding::zero1, OptimizerSharding::zero2, OptimizerSharding::zero3})};
  space.may_recompute = random() % 2 == 0;
  space.may_keep = !space.may_recompute || random() % 2 == 0;
  space.most_tensor = layers > 7 ? 1 : 0;
  if (space.schedules[0] == "zero-bubble") space.equal_stages = true;
  const uint64_t unequal = random() % 6;
  for (Device& device : c->cluster.devices) {
    if (unequal == 0) device.kind = int(random() % 2);
    if (unequal == 1) device.speed = one_of(random, {1.0, 2.0});
  }
  return c;
}

struct Best {
  double seconds = kInfinity, least_memory = kInfinity;
  size_t plans = 0;
};

Best best_of_all(const PlanRequest& request) {
  BruteForce brute(request);
  Best best;
  brute.all(kMostPlans, [&](const Plan& plan) {
    const Prediction p = brute.step().predict(plan);
    best.least_memory = std::min(best.least_memory, p.fullest());
    if (p.fits()) best.seconds = std::min(best.seconds, p.seconds);
  });
  best.plans = brute.visited();
  return best;
}

void expect_equal(const PlanRequest& request, const Best& best, uint64_t seed) {
  const PlanAnswer answer = find_plan(request);
  ASSERT_EQ(answer.best.has_value(), best.seconds < kInfinity)
      << "seed " << seed << ", " << best.plans
      << " plans: " << (answer.best ? answer.best->plan.in_short(request.model) : answer.proof);
  if (!answer.best) {
    ASSERT_TRUE(answer.shortfall) << "seed " << seed;
    EXPECT_GT(answer.shortfall->missing, 0) << "seed " << seed;
    return;
  }
  const RatedPlan& found = *answer.best;
  EXPECT_NEAR(found.objective, best.seconds, 1e-9 * best.seconds) << "seed " << seed << ", " << best.plans << " plans";
  EXPECT_NEAR(answer.lower_bound, best.seconds, 1e-9 * best.seconds) << "seed " << seed;
  EXPECT_EQ(answer.proof, "optimal under the step model") << "seed " << seed;
  validate(found.plan, request.model, request.batch, "exact");
  EXPECT_TRUE(found.prediction.fits());
}

/// TRIREME_SEEDS: the number of random cases, for longer runs than the usual one.
int cases() {
  const char* given = std::getenv("TRIREME_SEEDS");
  return given ? std::atoi(given) : 150;
}

class Random4Devices : public ::testing::TestWithParam<bool> {};

TEST_P(Random4Devices, EqualsBruteForceWithAndWithoutMemoryLimits) {
  const bool branches = GetParam();
  int compared = 0, limited = 0, nothing_fits = 0;
  size_t plans = 0;
  uint64_t seed = branches ? 100000 : 1;
  for (; compared < cases(); ++seed) {
    const auto c = random_case(seed, branches);
    const Best free = best_of_all(c->request);
    if (free.plans >= kMostPlans) continue;  // brute force did not list all of them
    ++compared;
    plans += free.plans;
    expect_equal(c->request, free, seed);
    if (free.seconds == kInfinity) continue;
    Random random(seed + 7);
    for (Device& device : c->cluster.devices)
      device.memory = int64_t(free.least_memory * (0.95 + double(random() % 100) / 100 * double(random() % 3)));
    const Best best = best_of_all(c->request);
    ++limited;
    nothing_fits += best.seconds == kInfinity;
    expect_equal(c->request, best, seed);
  }
  std::printf("%d cases up to seed %llu, %d of them with a memory limit too (nothing fits %d), %zu plans\n", compared,
              static_cast<unsigned long long>(seed), limited, nothing_fits, plans);
}

INSTANTIATE_TEST_SUITE_P(Graphs, Random4Devices, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Branching" : "Chains"; });

}  // namespace
}  // namespace trireme
