// ASA (a reconstruction) and the best uniform plan: properties that hold for any layer costs.
#include "planner/asa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exact/fake_costs.h"
#include "plan/named.h"

namespace trireme {
namespace {

constexpr int kSeeds = 60;

struct Case {
  explicit Case(uint64_t seed)
      : random(seed),
        model(random_model(random, 4 + int(random() % 10), 8, random() % 2 == 0, random() % 4 == 0)),
        cluster(random_cluster(random, 1 << random() % 4)),
        costs(model, seed),
        request{.model = model, .cluster = cluster, .costs = costs} {
    request.batch = 16;
    request.layer_classes = each_its_own(model);
  }

  Random random;
  Model model;
  Cluster cluster;
  FakeCosts costs;
  PlanRequest request;
};

/// The plan that gives all layers these degrees, even layers that they do not split.
RatedPlan uniform_plan(const PlanRequest& request, int data, int tensor) {
  RatedPlan rated{named_plan("data", request.model, request.cluster, request.batch, {}), {}, 0};
  const ModelFacts facts(request);
  const std::vector<std::string> splits =
      choose_splits(request.model, tensor, std::max<int64_t>(1, request.batch / data));
  for (NodeId node = facts.first_layer(); node < facts.end(); ++node)
    rated.plan.layers[size_t(node)] = {0, data, tensor, splits[size_t(node)]};
  rated.prediction = StepModel(facts).predict(rated.plan);
  return rated;
}

TEST(Asa, NeverSlowerThanAnyUniformPlanAndValid) {
  int adapted = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Case c(seed);
    const auto asa = plan_asa(c.request);
    ASSERT_TRUE(asa) << "seed " << seed;
    validate(asa->plan, c.model, c.request.batch, "asa");
    const int devices = c.cluster.size();
    double best = -1;
    for (int tensor = 1; tensor <= devices; tensor *= 2) {
      const RatedPlan uniform = uniform_plan(c.request, devices / tensor, tensor);
      EXPECT_LE(asa->prediction.seconds, uniform.prediction.seconds) << "seed " << seed << ", tensor " << tensor;
      best = best < 0 ? uniform.prediction.seconds : std::min(best, uniform.prediction.seconds);
    }
    EXPECT_DOUBLE_EQ(plan_hybrid_static(c.request)->prediction.seconds, best);
    adapted += asa->prediction.seconds < best;
  }
  std::printf("seeds 1 to %d; faster than every uniform plan: %d\n", kSeeds, adapted);
  EXPECT_GT(adapted, 0);
}

TEST(Asa, KeepsWithinMemoryOrSaysThatNothingFits) {
  int fitting = 0, none = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Case c(seed);
    const double needs = plan_asa(c.request)->prediction.fullest();
    for (Device& device : c.cluster.devices) device.memory = int64_t(needs * (0.3 + 0.1 * double(seed % 8)));
    const auto asa = plan_asa(c.request);
    if (asa) {
      ++fitting;
      EXPECT_LE(asa->prediction.fullest(), double(c.cluster.devices[0].memory) * (1 + kLimitRounding))
          << "seed " << seed;
    } else {
      ++none;
      EXPECT_FALSE(plan_hybrid_static(c.request)) << "seed " << seed;
    }
    for (Device& device : c.cluster.devices) device.memory = 1;
    EXPECT_FALSE(plan_asa(c.request)) << "seed " << seed;
  }
  EXPECT_GT(fitting, 0);
  EXPECT_GT(none, 0);
}

/// With free links and unlimited memory every block takes its fastest degrees.
TEST(Asa, FreeLinksGiveTheLeastComputing) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    Case c(seed);
    for (ClusterNode& node : c.cluster.nodes) node.link = {};
    c.cluster.network = {};
    c.costs.seconds_per_update = 0;
    const auto asa = plan_asa(c.request);
    const int devices = c.cluster.size();
    std::vector<std::vector<double>> work;  // seconds of forward and backward by tensor degree and block
    for (int tensor = 1; tensor <= devices; tensor *= 2) {
      const RatedPlan uniform = uniform_plan(c.request, devices / tensor, tensor);
      work.emplace_back();
      std::string block;
      for (NodeId node = c.model.input_count(); node < NodeId(c.model.nodes().size()); ++node) {
        const LayerCost cost =
            c.costs.seconds(node, option_of(uniform.plan, c.model, node), tensor, c.request.batch * tensor / devices);
        if (work.back().empty() || block_of(c.model.node(node).name) != block) work.back().push_back(0);
        block = block_of(c.model.node(node).name);
        work.back().back() += (devices == 1 ? 1 : cost.crowding) * (cost.forward + cost.backward);
      }
    }
    double least = 0;
    for (size_t b = 0; b < work[0].size(); ++b) {
      double best = work[0][b];
      for (const auto& blocks : work) best = std::min(best, blocks[b]);
      least += best;
    }
    const auto names = c.model.parameters();
    const bool tied =
        std::any_of(names.begin(), names.end(), [](const ParameterSpec& p) { return p.name == "shared"; });
    if (!tied) {
      EXPECT_NEAR(asa->prediction.seconds, least, 1e-9 * least) << "seed " << seed;
    }
    EXPECT_GE(asa->prediction.compute, least * (1 - 1e-9)) << "seed " << seed;
  }
}

/// No change of one block to other degrees is better while the costs stay the same.
TEST(Asa, SameCostsGiveTheSamePlanAndNoBlockHasAnythingBetter) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Case c(seed);
    const auto asa = plan_asa(c.request);
    EXPECT_EQ(asa->plan, plan_asa(c.request)->plan) << "seed " << seed;
    const ModelFacts facts(c.request);
    const StepModel step(facts);
    const int devices = c.cluster.size();
    for (int tensor = 1; tensor <= devices; tensor *= 2) {
      const Plan uniform = uniform_plan(c.request, devices / tensor, tensor).plan;
      for (NodeId begin = facts.first_layer(); begin < facts.end(); ++begin) {
        if (facts.layer(begin).run != begin) continue;
        Plan changed = asa->plan;
        for (NodeId node = begin; node < facts.end() && facts.layer(node).run == begin; ++node)
          changed.layers[size_t(node)] = uniform.layers[size_t(node)];
        try {
          validate(changed, c.model, c.request.batch, "changed");
        } catch (const Error&) {
          continue;  // tied parameters must be split alike
        }
        EXPECT_GE(step.predict(changed).seconds * (1 + 1e-12), asa->prediction.seconds) << "seed " << seed;
      }
    }
  }
}

TEST(Asa, ExactIsNeverSlower) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Case c(seed);
    const auto asa = plan_asa(c.request);
    const PlanAnswer exact = find_plan(c.request);
    ASSERT_TRUE(exact.best);
    EXPECT_LE(exact.best->objective, asa->objective * (1 + 1e-9)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trireme
