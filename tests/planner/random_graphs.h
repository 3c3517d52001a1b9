// Small random graphs for tests that compare with brute force.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>

#include "planner/graph_files/layer_profile.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {

using Random = std::mt19937_64;

inline double draw(Random& random, double most) { return double(random() % 1000) / 1000 * most; }

/// Random edges from lower to higher numbers; each exists with a chance of `density` percent.
inline std::vector<std::pair<int, int>> random_edges(Random& random, int nodes, uint64_t density) {
  std::vector<std::pair<int, int>> edges;
  for (int to = 1; to < nodes; ++to)
    for (int from = 0; from < to; ++from)
      if (random() % 100 < density) edges.push_back({from, to});
  return edges;
}

inline LayerGraph random_profile(Random& random, int nodes) {
  LayerGraph graph;
  for (int v = 0; v < nodes; ++v) {
    LayerProfile layer;
    layer.name = fmt::format("node{}", v);
    layer.description = "Layer";
    layer.forward = draw(random, 1);
    layer.backward = random() % 4 == 0 ? 0 : draw(random, 2);
    layer.activation_bytes = draw(random, 1e6);
    layer.parameter_bytes = random() % 3 == 0 ? 0 : draw(random, 1e6);
    graph.layers.push_back(std::move(layer));
  }
  graph.edges = make_dag(nodes, random_edges(random, nodes, 15 + random() % 60));
  return graph;
}

/// Forward nodes and, with `training`, for each a backward node of the same colour. Some colours have several forward
/// nodes, some nodes take no time, some run only on a CPU.
inline PlacementProblem random_placement(Random& random, int nodes, bool training) {
  PlacementProblem problem;
  const auto forward = random_edges(random, nodes, 15 + random() % 60);
  auto edges = forward;
  for (int copy = 0; copy < (training ? 2 : 1); ++copy)
    for (int v = 0; v < nodes; ++v) {
      PlacementNode node;
      node.id = copy * nodes + v;
      node.name = fmt::format("{}{}", copy ? "b" : "f", v);
      node.backward = copy == 1;
      const bool free = copy == 0 ? random() % 5 == 0 : problem.nodes[size_t(v)].accelerator == 0;
      node.accelerator = free ? 0 : draw(random, 1);
      node.cpu = free ? 0 : (1 + draw(random, 5)) * node.accelerator;
      node.bytes = random() % 4 == 0 ? 0 : draw(random, 100);
      node.send = draw(random, 0.5);
      node.on_accelerator = random() % 12 != 0;
      if (training)
        node.color = copy == 1           ? problem.nodes[size_t(v)].color
                     : random() % 5 == 0 ? int(random() % uint64_t(nodes))
                                         : v;
      problem.nodes.push_back(std::move(node));
    }
  if (training)
    for (const auto& [from, to] : forward) edges.push_back({nodes + to, nodes + from});
  problem.edges = make_dag(int(problem.nodes.size()), edges);
  problem.accelerators = int(random() % 4);
  problem.cpus = problem.accelerators == 3 ? 1 : 1 + int(random() % 2);
  problem.memory = 40 + draw(random, 400);
  return problem;
}

/// All loads are above 0, so that the times of a part that waits for itself grow without end.
inline PlacementProblem random_inference(Random& random, int nodes) {
  PlacementProblem problem = random_placement(random, nodes, false);
  for (PlacementNode& node : problem.nodes) {
    node.accelerator += 0.01;
    node.cpu += 0.02;
  }
  problem.accelerators = 1 + int(random() % 2);
  return problem;
}

}  // namespace trireme
