// Gossip beside a serial reference in double, and the pairs of its graphs.
#include "update/gossip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/hub/thread_world.h"
#include "update/registry.h"
#include "worlds.h"

namespace trireme {
namespace {

using Graph = GossipOptions::Graph;

constexpr Graph kGraphs[] = {Graph::ring, Graph::exponential, Graph::random};

/// Whose group a replica belongs to when pairs of groups have been joined.
int root_of(std::vector<int>& parents, int replica) {
  while (parents[size_t(replica)] != replica) replica = parents[size_t(replica)];
  return replica;
}

TEST(Gossip, PairsAreMutualAndJoinAllReplicas) {
  for (const Graph graph : kGraphs)
    for (int n = 1; n <= 33; ++n) {
      const GossipOptions options{.graph = graph, .seed = 7};
      std::vector<int> parents(static_cast<size_t>(n));
      std::iota(parents.begin(), parents.end(), 0);
      for (int64_t k = 0; k < 6 * n + 20; ++k) {
        int alone = 0;
        for (int r = 0; r < n; ++r) {
          const int partner = gossip_partner(options, r, n, k);
          ASSERT_TRUE(partner >= 0 && partner < n);
          ASSERT_EQ(gossip_partner(options, partner, n, k), r) << n << " " << k;
          alone += partner == r;
          parents[size_t(root_of(parents, r))] = root_of(parents, partner);
          if (graph == Graph::ring && partner != r && n > 2) {
            const int hop = (partner - r + n) % n;
            ASSERT_TRUE(hop == 1 || hop == n - 1) << n;
          }
        }
        ASSERT_GE(alone, n % 2);
        ASSERT_TRUE(alone == n % 2 || graph == Graph::exponential) << "as many as possible have a partner";
      }
      for (int r = 0; r < n; ++r) EXPECT_EQ(root_of(parents, r), root_of(parents, 0)) << n << " " << r;
    }
}

TEST(Gossip, EveryEdgeOfTheGraphIsUsed) {
  for (const int n : {5, 6, 7, 8, 12})
    for (const auto& [graph, hops] : {std::pair(Graph::ring, std::set{1}), {Graph::exponential, std::set{1, 2, 4}}}) {
      if (graph == Graph::exponential && n == 8) continue;  // of a power of two half of the edges are enough
      std::set<std::pair<int, int>> used, wanted;
      for (int64_t k = 0; k < 20L * n; ++k)
        for (int r = 0; r < n; ++r)
          if (const int partner = gossip_partner({.graph = graph}, r, n, k); partner > r) used.emplace(r, partner);
      for (int r = 0; r < n; ++r)
        for (const int hop : hops)
          if (const int other = (r + hop) % n; 2 * hop <= n) wanted.emplace(std::min(r, other), std::max(r, other));
      EXPECT_EQ(used, wanted) << n;
    }
}

/// Ying et al., 2021: with a power of two of replicas, log2(n) exchanges give everyone the mean.
TEST(Gossip, AnExponentialGraphAveragesExactly) {
  constexpr int kReplicas = 16, kExchanges = 4;
  std::vector<double> values(kReplicas);
  for (int r = 0; r < kReplicas; ++r) values[size_t(r)] = r * r;
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / kReplicas;
  for (int64_t k = 0; k < kExchanges; ++k) {
    const std::vector<double> before = values;
    for (int r = 0; r < kReplicas; ++r)
      values[size_t(r)] = (before[size_t(r)] + before[size_t(gossip_partner({}, r, kReplicas, k))]) / 2;
  }
  for (const double value : values) EXPECT_NEAR(value, mean, 1e-12);
}

/// Serial: steps of each replica, averages of pairs, and the mean of all at the end.
Vector reference(const ToyProblem& problem, const GossipOptions& options, int n, int64_t count, double momentum) {
  std::vector<Vector> weights(size_t(n), problem.initial()), buffers(size_t(n), Vector(size_t(problem.dims)));
  const auto every = int64_t(options.every.count);
  for (int64_t k = 0; k < count; ++k) {
    for (int r = 0; r < n; ++r) {
      Vector &w = weights[size_t(r)], &m = buffers[size_t(r)];
      const Vector g = problem.gradient(r, k, w);
      for (size_t d = 0; d < w.size(); ++d) w[d] -= kRate * (m[d] = momentum * m[d] + g[d]);
    }
    if ((k + 1) % every != 0) continue;
    const std::vector<Vector> before = weights, moments = buffers;
    for (int r = 0; r < n; ++r) {
      const int partner = gossip_partner(options, r, n, k / every);
      if (partner == r) continue;
      for (size_t d = 0; d < weights[0].size(); ++d) {
        weights[size_t(r)][d] = (before[size_t(r)][d] + before[size_t(partner)][d]) / 2;
        double& m = buffers[size_t(r)][d];
        if (options.moments == Moments::averaged) m = (moments[size_t(r)][d] + moments[size_t(partner)][d]) / 2;
        if (options.moments == Moments::reset) m = 0;
      }
    }
  }
  Vector mean(weights[0].size());
  for (const Vector& w : weights)
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += w[d] / n;
  return mean;
}

TEST(Gossip, FollowsTheReference) {
  const ToyProblem problem{.seed = 31, .samples = {12, 9}};
  for (const Graph graph : kGraphs)
    for (const int n : {1, 2, 3, 4, 6, 8})
      for (const Moments moments : {Moments::kept, Moments::averaged, Moments::reset}) {
        const GossipOptions options{.graph = graph, .every = steps(2), .moments = moments, .seed = 9};
        auto policy = gossip(options);
        ThreadWorld world(n);
        const ToyOptions toy{.steps = {11}, .learning_rate = kRate, .momentum = 0.9};
        const Vector model = reference(problem, options, n, 11, 0.9);
        for (const ToyResult& result : train_toy(world, *policy, problem, toy))
          EXPECT_LT(largest_difference(result.weights, model), 1e-12) << n << " " << int(graph) << int(moments);
      }
}

/// In the step of an exchange all replicas agree on whether the run ends, also those without a partner.
TEST(Gossip, AllReplicasHaveTheirExchangesInTheSameSteps) {
  for (const Graph graph : kGraphs)
    for (const int n : {1, 2, 3, 5, 6}) {
      auto policy = gossip({.graph = graph, .every = steps(2), .seed = 9});
      ThreadWorld world(n);
      std::vector<std::vector<bool>> exchanged(static_cast<size_t>(n));
      run_replicas(world, [&](Hub& hub) {
        ReplicaState state = toy_state(Vector(6, hub.replica()));
        const auto replica = policy->for_replica(hub);
        for (int64_t k = 0; k < 8; ++k)
          exchanged[size_t(hub.replica())].push_back(replica->after_step({.step = k, .samples = 1}, state));
        replica->finish(state);
      });
      for (const std::vector<bool>& of_replica : exchanged)
        EXPECT_EQ(of_replica, std::vector<bool>({false, true, false, true, false, true, false, true})) << n;
    }
}

TEST(Gossip, SaysWhatIsWrong) {
  const auto expect = [](const std::vector<std::string>& parts, const std::string& keys) {
    const ConfigTable table = ConfigTable::from_string("policy = \"gossip\"\n" + keys, "e.toml");
    expect_error(Blame::user, parts, [&] { make_update_policy(table, {.replicas = 4}); });
  };
  expect({"graph", "exponential, ring, random"}, "graph = \"star\"");
  expect({"every"}, "every = \"0 steps\"");
}

}  // namespace
}  // namespace trireme
