// Compares order ideals with the definition, on all subsets.
#include "planner/graph_files/order_ideals.h"

#include <gtest/gtest.h>

#include <set>

#include "random_graphs.h"

namespace trireme {
namespace {

bool is_ideal(const Dag& graph, unsigned set) {
  for (int v = 0; v < graph.size(); ++v)
    for (int p : graph.predecessors[size_t(v)])
      if ((set >> v & 1) && !(set >> p & 1)) return false;
  return true;
}

unsigned bits(const OrderIdeals& ideals, size_t ideal, int vertices) {
  unsigned set = 0;
  for (int v = 0; v < vertices; ++v) set |= unsigned(ideals.contains(ideal, v)) << v;
  return set;
}

TEST(OrderIdeals, AreThoseOfTheDefinition) {
  const uint64_t seed = 11;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  for (int round = 0; round < 60; ++round) {
    const int count = 1 + int(random() % 9);
    const Dag graph = make_dag(count, random_edges(random, count, random() % 80));
    std::set<unsigned> expected;
    for (unsigned set = 0; set < 1u << count; ++set)
      if (is_ideal(graph, set)) expected.insert(set);
    const OrderIdeals ideals = *OrderIdeals::all(graph);
    ASSERT_EQ(ideals.size(), expected.size());
    std::vector<double> powers;
    for (int v = 0; v < count; ++v) powers.push_back(1u << v);
    const std::vector<double> sums = ideals.sums(powers);
    for (size_t i = 0; i < ideals.size(); ++i) {
      const unsigned set = bits(ideals, i, count);
      EXPECT_TRUE(expected.contains(set));
      EXPECT_EQ(sums[i], double(set));
      for (const auto& step : ideals.steps_down(i))
        EXPECT_EQ(bits(ideals, size_t(step.smaller), count), set & ~(1u << step.vertex));
      for (size_t j = 0; j < ideals.size(); ++j) {
        EXPECT_EQ(ideals.is_subset(i, j), (set & ~bits(ideals, j, count)) == 0);
        EXPECT_FALSE(i > j && ideals.is_subset(i, j)) << "a larger set came first";
      }
    }
    EXPECT_EQ(bits(ideals, 0, count), 0u);
    EXPECT_EQ(bits(ideals, ideals.size() - 1, count), (1u << count) - 1);
  }
}

TEST(OrderIdeals, OfAWideGraphAreTooMany) {
  const Dag apart = make_dag(30, {});
  EXPECT_FALSE(OrderIdeals::all(apart, 10'000).has_value());
  // Two orders of 31 ideals; 2 are in both.
  EXPECT_EQ(OrderIdeals::along(apart, some_topological_orders(apart)).size(), 31u + 29u);
}

TEST(Dag, FindsCyclesAndComponents) {
  const std::vector<std::pair<int, int>> edges{{0, 1}, {1, 2}, {2, 3}, {3, 1}, {3, 4}};
  const Dag graph = make_dag(5, edges);
  std::vector<int> cycle = find_cycle(graph);
  ASSERT_EQ(cycle.size(), 3u);
  for (size_t i = 0; i < cycle.size(); ++i) {
    const auto& next = graph.successors[size_t(cycle[i])];
    EXPECT_NE(std::find(next.begin(), next.end(), cycle[(i + 1) % cycle.size()]), next.end());
  }
  const std::vector<int> component = strong_components(graph);
  EXPECT_EQ(component[1], component[2]);
  EXPECT_EQ(component[1], component[3]);
  EXPECT_EQ(std::set<int>(component.begin(), component.end()).size(), 3u);
  EXPECT_TRUE(find_cycle(make_dag(3, std::vector<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 2}})).empty());
  EXPECT_EQ(find_cycle(make_dag(1, std::vector<std::pair<int, int>>{{0, 0}})), std::vector<int>{0});
}

}  // namespace
}  // namespace trireme
