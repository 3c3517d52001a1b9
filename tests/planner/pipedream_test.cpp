// PipeDream's cost model: the planner against brute force over all assignments of layers to stages.
#include "planner/pipedream.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "random_graphs.h"

namespace trireme {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kBandwidth = 1e6;

/// Evaluates plans straight from the definition.
class BruteForce {
 public:
  BruteForce(const LayerGraph& graph, const PipeDreamCosts& costs) : graph_(graph), costs_(costs), below_(graph.layers.size()) {
    for (size_t v = 0; v < below_.size(); ++v)
      for (int p : graph.edges.predecessors[v]) below_[v] |= below_[size_t(p)] | 1u << p;
  }

  double best() {
    best_ = kInfinity;
    extend(0, {}, {});
    return best_;
  }

 private:
  /// All sequences of ideals, all replicas.
  void extend(unsigned done, std::vector<unsigned> sets, std::vector<int> replicas) {
    const unsigned all = (1u << below_.size()) - 1;
    if (done == all) {
      best_ = std::min(best_, bottleneck(sets, replicas));
      return;
    }
    int used = 0;
    for (int r : replicas) used += r;
    for (unsigned set = 1; set <= all; ++set) {
      if ((set & done) != 0 || !is_ideal(done | set)) continue;
      for (int r = 1; r <= (costs_.straight ? 1 : costs_.devices - used) && used + r <= costs_.devices; ++r) {
        auto more = sets;
        auto counts = replicas;
        more.push_back(set);
        counts.push_back(r);
        extend(done | set, more, counts);
      }
    }
  }

  bool is_ideal(unsigned set) const {
    for (size_t v = 0; v < below_.size(); ++v)
      if ((set >> v & 1) && (below_[v] & ~set)) return false;
    return true;
  }

  double bottleneck(const std::vector<unsigned>& sets, const std::vector<int>& replicas) const {
    int behind = 0;
    for (int r : replicas) behind += r;
    double worst = 0;
    unsigned done = 0;
    for (size_t s = 0; s < sets.size(); ++s) {
      const double r = replicas[s];
      behind -= replicas[s];
      double work = 0, weights = 0, activations = 0;
      for (size_t v = 0; v < below_.size(); ++v) {
        if (!(sets[s] >> v & 1)) continue;
        work += graph_.layers[v].forward + graph_.layers[v].backward;
        weights += graph_.layers[v].parameter_bytes;
        activations += graph_.layers[v].activation_bytes;
      }
      if (costs_.memory && std::ceil(behind / r) * (weights + activations) > *costs_.memory) return kInfinity;
      worst = std::max(worst, (work + 4 * (r - 1) * weights / (costs_.bandwidth * r)) / r);
      if (s > 0) worst = std::max(worst, 2 * open(done) / (costs_.bandwidth * r));
      done |= sets[s];
      if (s > 0 && s + 1 < sets.size()) worst = std::max(worst, 2 * open(done) / (costs_.bandwidth * r));
    }
    return worst;
  }

  /// Activations of the maximal layers of the set, and of layers below one of them with a reader that is not below it.
  double open(unsigned set) const {
    unsigned found = 0;
    for (size_t x = 0; x < below_.size(); ++x) {
      bool maximal = set >> x & 1;
      for (int reader : graph_.edges.successors[x]) maximal = maximal && !(set >> reader & 1);
      if (!maximal) continue;
      found |= 1u << x;
      for (size_t p = 0; p < below_.size(); ++p)
        if (below_[x] >> p & 1)
          for (int reader : graph_.edges.successors[p])
            if (size_t(reader) != x && !(below_[x] >> reader & 1)) found |= 1u << p;
    }
    double sum = 0;
    for (size_t v = 0; v < below_.size(); ++v)
      if (found >> v & 1) sum += graph_.layers[v].activation_bytes;
    return sum;
  }

  const LayerGraph& graph_;
  const PipeDreamCosts& costs_;
  std::vector<unsigned> below_;
  double best_ = kInfinity;
};

void check_stages(const LayerGraph& graph, const PipeDreamCosts& costs, const GraphPlan& plan) {
  std::vector<int> stage_of(graph.layers.size(), -1);
  int devices = 0;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    devices += plan.stages[s].replicas;
    EXPECT_LE(plan.stages[s].load, plan.objective * (1 + 1e-12));
    for (int v : plan.stages[s].nodes) {
      EXPECT_EQ(stage_of[size_t(v)], -1) << "in two stages";
      stage_of[size_t(v)] = int(s);
    }
  }
  EXPECT_LE(devices, costs.devices);
  for (size_t v = 0; v < stage_of.size(); ++v) {
    EXPECT_GE(stage_of[v], 0);
    for (int next : graph.edges.successors[v]) EXPECT_LE(stage_of[v], stage_of[size_t(next)]);
  }
}

TEST(PipeDream, FindsTheOptimumOfRandomGraphs) {
  const uint64_t seed = 2025;
  Random random(seed);
  for (int round = 0; round < 150; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const int nodes = round < 140 ? 1 + int(random() % 6) : 7 + int(random() % 3);
    const LayerGraph graph = random_profile(random, nodes);
    PipeDreamCosts costs{.devices = 1 + int(random() % 4), .bandwidth = kBandwidth * (0.1 + draw(random, 10)), .straight = random() % 4 == 0,
                         .memory = {}};
    if (nodes > 6) costs.devices = std::min(costs.devices, 3);
    if (random() % 3 == 0) costs.memory = draw(random, 4e6);
    const GraphPlan plan = plan_pipedream(graph, costs);
    const double best = BruteForce(graph, costs).best();
    ASSERT_NEAR(plan.objective, best, 1e-9 * best);
    EXPECT_EQ(plan.lower_bound, plan.objective);
    check_stages(graph, costs, plan);
  }
}

TEST(PipeDream, NeverGetsWorseWithMore) {
  const uint64_t seed = 7;
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(fmt::format("seed {}, round {}", seed, round));
    const LayerGraph graph = random_profile(random, 4 + int(random() % 12));
    const PipeDreamCosts costs{.devices = 1 + int(random() % 6), .bandwidth = kBandwidth, .straight = false, .memory = draw(random, 4e6)};
    const double least = plan_pipedream(graph, costs).objective * (1 - 1e-12);
    PipeDreamCosts more = costs;
    more.devices += 1 + int(random() % 3);
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    more = costs;
    more.bandwidth *= 2;
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    more = costs;
    *more.memory *= 2;
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    more.memory.reset();
    EXPECT_LE(plan_pipedream(graph, more).objective * (1 - 1e-9), least);
    PipeDreamCosts straight = costs;
    straight.straight = true;
    EXPECT_GE(plan_pipedream(graph, straight).objective * (1 + 1e-9), least);
  }
}

LayerGraph chain(const std::vector<double>& seconds, double weights, double activations) {
  LayerGraph graph;
  std::vector<std::pair<int, int>> edges;
  for (size_t v = 0; v < seconds.size(); ++v) {
    graph.layers.push_back({fmt::format("n{}", v), "Layer", seconds[v], 0, activations, weights});
    if (v > 0) edges.push_back({int(v) - 1, int(v)});
  }
  graph.edges = make_dag(int(seconds.size()), edges);
  return graph;
}

TEST(PipeDream, KnownCases) {
  const LayerGraph graph = chain({1, 2, 3, 4}, 100, 100);
  EXPECT_DOUBLE_EQ(plan_pipedream(graph, {1, 1e9, false, {}}).objective, 10);
  // weights that are nearly free to exchange: the work divided
  EXPECT_NEAR(plan_pipedream(graph, {4, 1e15, false, {}}).objective, 2.5, 1e-6);
  EXPECT_NEAR(plan_pipedream(graph, {4, 1e15, true, {}}).objective, 4, 1e-6);
  EXPECT_NEAR(plan_pipedream(graph, {3, 1e15, true, {}}).objective, 4, 1e-6);
  // a link on which nothing pays: one device does it all, the others stay idle
  EXPECT_DOUBLE_EQ(plan_pipedream(graph, {4, 1e-9, false, {}}).objective, 10);
}

TEST(PipeDream, InputsAndUnreadResultsCostNothing) {
  LayerGraph graph = chain({5, 1, 2, 7}, 0, 1);
  graph.layers[0].description = "Input0";
  graph.layers[3].description = "__getitem__(1)";
  const GraphPlan plan = plan_pipedream(graph, {1, 1e9, false, {}});
  EXPECT_DOUBLE_EQ(plan.objective, 3);
  ASSERT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.stages[0].nodes.size(), 4u);
}

TEST(PipeDream, WhereTimeEndsTheSearchTheBoundSaysSo) {
  Random random(3);
  const LayerGraph graph = random_profile(random, 14);
  const GraphPlan cut_short = plan_pipedream(graph, {4, kBandwidth, false, {}}, Deadline(0));
  const GraphPlan whole = plan_pipedream(graph, {4, kBandwidth, false, {}});
  EXPECT_LE(cut_short.lower_bound, whole.objective);
  EXPECT_GE(cut_short.objective, whole.objective);
}

}  // namespace
}  // namespace trireme
