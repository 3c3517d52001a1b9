// Models of published profiles: compares their program's step with the sum of the profile's numbers.
#include "validation/graph_model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "validation/simulated.h"

namespace trireme::validation {
namespace {

/// A chain of layers "node1", "node2", ...
LayerGraph chain(const std::vector<LayerProfile>& layers) {
  LayerGraph graph;
  std::vector<std::pair<int, int>> edges;
  for (size_t v = 0; v < layers.size(); ++v) {
    graph.layers.push_back(layers[v]);
    graph.layers.back().name = fmt::format("node{}", v + 1);
    if (v > 0) edges.push_back({int(v) - 1, int(v)});
  }
  graph.edges = make_dag(int(layers.size()), edges);
  return graph;
}

TEST(GraphModel, CarriesTheProfilesNumbers) {
  const LayerGraph graph = chain(
      {{.name = {},
        .description = {},
        .forward = 0.1,
        .backward = 0.2,
        .activation_bytes = 8 * 4 * 30,
        .parameter_bytes = 1600},
       {.name = {}, .description = {}, .forward = 0.3, .backward = 0.6, .activation_bytes = 4, .parameter_bytes = 0}});
  const GraphModel net = make_graph_model(graph, 8);
  EXPECT_EQ(net.model.parameter_count(), 400);
  EXPECT_EQ(net.model.node(net.nodes[0]).sample_shape, Shape{30});
  EXPECT_EQ(net.model.node(net.nodes[1]).sample_shape, Shape{1});
  Cluster cluster = Cluster::uniform(1);
  cluster.nodes.resize(1);
  cluster.kinds.emplace_back();
  cluster.devices[0].kind = 0;
  const GraphCosts costs(net, graph, 8, 1e12);
  const Setting setting{.model = net.model, .cluster = cluster, .batch = 16, .layers = &costs};
  const double update = 400 * 4 * 5 / 1e12;  // reads gradient, weights and momentum; writes the last two
  EXPECT_NEAR(step_seconds(setting, balanced_plan(setting, {.micro_batches = 1}, "gpipe")), 2 * 1.2 + update, 1e-12);
}

double load_of(const LayerGraph& graph, size_t begin, size_t end, double replicas, double bandwidth) {
  double seconds = 0, bytes = 0;
  for (size_t v = begin; v < end; ++v) {
    seconds += graph.layers[v].forward + graph.layers[v].backward;
    bytes += graph.layers[v].parameter_bytes;
  }
  return (seconds + 4 * (replicas - 1) / replicas * bytes / bandwidth) / replicas;
}

TEST(GraphModel, CutsWhereTheGreatestLoadIsLeast) {
  const uint64_t seed = 7;
  std::mt19937_64 random(seed);
  const auto draw = [&](double most) { return most * double(random() % 1000 + 1) / 1000; };
  constexpr double kBandwidth = 1e6;
  const std::vector<int> replicas{3, 1, 2};
  for (int round = 0; round < 20; ++round) {
    std::vector<LayerProfile> layers(8);
    for (LayerProfile& layer : layers) {
      layer.forward = draw(1), layer.backward = draw(2);
      layer.activation_bytes = draw(3e5), layer.parameter_bytes = draw(5e5);
    }
    const LayerGraph graph = chain(layers);
    const auto load = [&](size_t first, size_t second) {
      const double sends = std::max(2 * layers[first - 1].activation_bytes / kBandwidth,
                                    2 * layers[second - 1].activation_bytes / kBandwidth);
      return std::max({load_of(graph, 0, first, 3, kBandwidth), load_of(graph, first, second, 1, kBandwidth),
                       load_of(graph, second, layers.size(), 2, kBandwidth), sends});
    };
    double least = 1e9;
    for (size_t first = 1; first < layers.size(); ++first)
      for (size_t second = first + 1; second < layers.size(); ++second) least = std::min(least, load(first, second));
    const auto stages = cut_for(graph, replicas, kBandwidth);
    ASSERT_EQ(stages.size(), 3u);
    EXPECT_NEAR(load(stages[0].size(), stages[0].size() + stages[1].size()), least, 1e-12)
        << "seed " << seed << ", round " << round;
  }
}

}  // namespace
}  // namespace trireme::validation
