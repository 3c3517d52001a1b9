// Gossip beside a serial reference in double, with and without codes, and the pairs of its graphs.
#include "update/gossip.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "../base/expect_error.h"
#include "toy.h"
#include "update/codec.h"
#include "update/hub/thread_world.h"
#include "update/hub/virtual_world.h"
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

// -- with codes

constexpr Codec kTenth{.kind = Codec::Kind::topk, .share = 0.1}, kThird{.kind = Codec::Kind::topk, .share = 0.3},
    kAll{.kind = Codec::Kind::topk, .share = 1}, kSigns{.kind = Codec::Kind::sign};

TEST(CompressedGossip, KnowsAllNeighbours) {
  for (const Graph graph : {Graph::ring, Graph::exponential})
    for (int n = 1; n <= 33; ++n)
      for (int r = 0; r < n; ++r) {
        std::set<int> met;
        for (int64_t k = 0; k < 6 * n + 20; ++k) met.insert(gossip_partner({.graph = graph}, r, n, k));
        met.erase(r);
        const std::vector<int> neighbours = gossip_neighbours({.graph = graph}, r, n);
        EXPECT_EQ(neighbours, std::vector<int>(met.begin(), met.end())) << int(graph) << " " << n << " " << r;
      }
}

/// Decodes the code of the values, in plain loops, in the buckets of toy_state: 4 elements, none, and the rest.
Vector kept_by(const Codec& codec, const Vector& values) {
  Vector kept(values.size());
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 4}, {4, values.size()}}) {
    if (codec.kind == Codec::Kind::sign) {  // blocks of 1024 are longer than the buckets
      double sum = 0;
      for (size_t d = begin; d < end; ++d) sum += std::abs(float(values[d]));
      for (size_t d = begin; d < end; ++d) kept[d] = std::copysign(float(sum / double(end - begin)), values[d]);
      continue;
    }
    std::vector<size_t> order(end - begin);
    std::iota(order.begin(), order.end(), begin);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
    order.resize(std::max<size_t>(1, size_t(std::llround(codec.share * double(order.size())))));
    for (const size_t d : order) kept[d] = values[d];
  }
  return kept;
}

/// CHOCO-SGD (Koloskova et al., 2019, algorithm 2) on the edge of each pair of a ring of 2 or 4, as in each exchange
/// two replicas hear each other: the weights w_ij of the edge are 1/2. Returns all replicas' weights after the last
/// step.
std::vector<Vector> choco_reference(const ToyProblem& problem, const Codec& codec, double gamma, int n, int64_t count) {
  std::vector<Vector> x(size_t(n), problem.initial());
  std::map<std::pair<int, int>, Vector> hats;  // by owner and neighbour: what the neighbour knows of the owner
  for (int64_t k = 0; k < count; ++k) {
    for (int r = 0; r < n; ++r) {
      const Vector g = problem.gradient(r, k, x[size_t(r)]);
      for (size_t d = 0; d < g.size(); ++d) x[size_t(r)][d] -= kRate * g[d];
    }
    const auto partner_of = [&](int r) { return (r + k) % 2 == 0 || n == 2 ? (r + 1) % n : (r + n - 1) % n; };
    for (int r = 0; r < n; ++r) {
      Vector& hat = hats.try_emplace(std::pair(r, partner_of(r)), problem.initial()).first->second;
      Vector difference(hat.size());
      for (size_t d = 0; d < hat.size(); ++d) difference[d] = x[size_t(r)][d] - hat[d];
      const Vector q = kept_by(codec, difference);
      for (size_t d = 0; d < hat.size(); ++d) hat[d] += q[d];
    }
    for (int r = 0; r < n; ++r)
      for (size_t d = 0; d < x[size_t(r)].size(); ++d)
        x[size_t(r)][d] += gamma * 0.5 * (hats.at({partner_of(r), r})[d] - hats.at({r, partner_of(r)})[d]);
  }
  return x;
}

TEST(CompressedGossip, FollowsThePaper) {
  constexpr int64_t kSteps = 25;
  const ToyProblem problem{.seed = 41, .dims = 30, .samples = {12, 9, 10, 8}};
  for (const int n : {2, 4})
    for (const auto& [codec, gamma] : {std::pair(kThird, 0.4), {kTenth, 0.1}, {kSigns, 0.35}}) {
      const std::vector<Vector> wanted = choco_reference(problem, codec, gamma, n, kSteps);
      Vector mean(wanted[0].size());
      for (const Vector& x : wanted)
        for (size_t d = 0; d < mean.size(); ++d) mean[d] += x[d] / n;
      auto policy = gossip({.graph = Graph::ring, .every = steps(1), .compression = codec, .gamma = gamma});
      ThreadWorld world(n);
      const auto watch = [&](int r, int64_t step, ReplicaState& state, ReplicaPolicy&, Hub&) {
        if (step != kSteps - 1) return;
        EXPECT_LT(largest_difference(to_vector(state.weights), wanted[size_t(r)]), 1e-11) << r;
      };
      for (const ToyResult& result :
           train_toy(world, *policy, problem, {.steps = {kSteps}, .learning_rate = kRate, .watch = watch}))
        EXPECT_LT(largest_difference(result.weights, mean), 1e-11) << n << text_of(std::optional(codec));
    }
}

/// Of a code that loses nothing a step of 1 makes the mean of both.
TEST(CompressedGossip, IsGossipWhereNothingIsLost) {
  const ToyProblem problem{.seed = 31, .samples = {12, 9}};
  for (const Graph graph : {Graph::ring, Graph::exponential})
    for (const int n : {1, 2, 3, 4, 6, 8})
      for (const Moments moments : {Moments::kept, Moments::reset}) {
        const GossipOptions options{.graph = graph, .every = steps(2), .moments = moments, .compression = kAll};
        auto policy = gossip(options);
        ThreadWorld world(n);
        const ToyOptions toy{.steps = {11}, .learning_rate = kRate, .momentum = 0.9};
        const Vector model = reference(problem, options, n, 11, 0.9);
        for (const ToyResult& result : train_toy(world, *policy, problem, toy))
          EXPECT_LT(largest_difference(result.weights, model), 1e-11) << n << " " << int(graph) << int(moments);
      }
}

/// Without steps of training the replicas come to the mean of what they began with, under the usual step size.
TEST(CompressedGossip, ReplicasComeTogether) {
  constexpr int64_t kDims = 200, kExchanges = 300;
  for (const Graph graph : {Graph::ring, Graph::exponential})
    for (const int n : {2, 5, 8})
      for (const Codec& codec : {kTenth, kThird, kSigns, Codec{.kind = Codec::Kind::e3m0}}) {
        const GossipOptions options{
            .graph = graph, .every = steps(1), .compression = codec, .gamma = usual_gamma(codec)};
        auto policy = gossip(options);
        ThreadWorld world(n);
        std::vector<Vector> first(static_cast<size_t>(n)), last(static_cast<size_t>(n));
        run_replicas(world, [&](Hub& hub) {
          const auto r = size_t(hub.replica());
          ReplicaState state = toy_state(Vector(kDims, 0.5));
          const auto replica = policy->for_replica(hub);
          replica->begin(state);
          first[r] = ToyProblem{.seed = 50 + uint64_t(r), .dims = kDims}.initial();
          from_vector(first[r], state.weights);
          for (int64_t k = 0; k < kExchanges; ++k) replica->after_step({.step = k, .samples = 1}, state);
          last[r] = to_vector(state.weights);
        });
        double before = 0, after = 0;
        for (size_t d = 0; d < size_t(kDims); ++d) {
          double mean = 0, moved = 0;
          for (size_t r = 0; r < size_t(n); ++r) {
            mean += first[r][d] / n;
            moved += last[r][d] / n;
          }
          EXPECT_NEAR(moved, mean, 1e-12);
          for (size_t r = 0; r < size_t(n); ++r) {
            before += (first[r][d] - mean) * (first[r][d] - mean);
            after += (last[r][d] - mean) * (last[r][d] - mean);
          }
        }
        // signs are coarse: what is left becomes smaller slowly
        EXPECT_LT(after, (codec.kind == Codec::Kind::sign ? 1e-2 : 1e-6) * before)
            << n << " " << int(graph) << text_of(std::optional(codec));
      }
}

TEST(CompressedGossip, CountsTheBytesOfItsCodes) {
  constexpr int64_t kDims = 2000, kSteps = 6;
  const ToyProblem problem{.seed = 5, .dims = kDims};
  for (const Codec& codec : {kTenth, kSigns, Codec{.kind = Codec::Kind::e3m0}, Codec{.kind = Codec::Kind::bf16}}) {
    const int64_t code = encoded_bytes(codec, 4, at::kFloat) + encoded_bytes(codec, kDims - 4, at::kFloat);
    const auto check = [&](HubWorld& world) {
      auto policy = gossip({.every = steps(2), .compression = codec, .gamma = 0.5});
      const auto watch = [&](int, int64_t step, ReplicaState&, ReplicaPolicy&, Hub& hub) {
        if (step != kSteps - 1) return;
        EXPECT_EQ(hub.counts().bytes_sent, 3 * code) << text_of(std::optional(codec));
        EXPECT_EQ(hub.counts().bytes_received, 3 * code);
      };
      train_toy(world, *policy, problem,
                {.steps = {kSteps}, .learning_rate = 1e-4, .dtype = at::kFloat, .watch = watch});
    };
    ThreadWorld threads(4);
    check(threads);
    const FixedTimes times({1});
    VirtualWorld modelled(4, times);
    check(modelled);
  }
}

TEST(CompressedGossip, HasAUsualStepSize) {
  const auto described = [](const std::string& keys) {
    const ConfigTable table = ConfigTable::from_string("policy = \"gossip\"\n" + keys, "e.toml");
    return make_update_policy(table, {.replicas = 4})->description();
  };
  EXPECT_EQ(described("").find("gamma"), std::string::npos);
  EXPECT_NE(described("compression = \"topk:1\"").find(",compression=topk:1,gamma=1"), std::string::npos);
  EXPECT_NE(described("compression = \"sign\"\ngamma = 0.25").find(",compression=sign,gamma=0.25"), std::string::npos);
  EXPECT_NEAR(usual_gamma({.kind = Codec::Kind::topk, .share = 0.01}), 0.04, 5e-4) << "that of the paper's authors";
  EXPECT_NE(described("compression = \"sign\""), described("compression = \"sign\"\ngamma = 0.1"));
}

TEST(Gossip, SaysWhatIsWrong) {
  const auto expect = [](const std::vector<std::string>& parts, const std::string& keys) {
    const ConfigTable table = ConfigTable::from_string("policy = \"gossip\"\n" + keys, "e.toml");
    expect_error(Blame::user, parts, [&] { make_update_policy(table, {.replicas = 4}); });
  };
  expect({"graph", "exponential, ring, random"}, "graph = \"star\"");
  expect({"every"}, "every = \"0 steps\"");
  expect({"compression", "random graph", "exponential"}, "graph = \"random\"\ncompression = \"sign\"");
  expect({"compression", "only weights", "moments"}, "moments = \"averaged\"\ncompression = \"sign\"");
  expect({"gamma", "give compression too"}, "gamma = 0.5");
  for (const char* gamma : {"0", "-0.1", "1.5"})
    expect({"gamma", "at most 1", "0.4"}, std::string("compression = \"sign\"\ngamma = ") + gamma);
}

}  // namespace
}  // namespace trireme
