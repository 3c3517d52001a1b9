#include "planner/graph_files/dag.h"

#include <algorithm>
#include <deque>

namespace trireme {

Dag make_dag(int vertices, std::span<const std::pair<int, int>> edges) {
  Dag graph{std::vector<std::vector<int>>(size_t(vertices)), std::vector<std::vector<int>>(size_t(vertices))};
  std::vector<std::pair<int, int>> distinct(edges.begin(), edges.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  for (const auto& [from, to] : distinct) {
    graph.successors[size_t(from)].push_back(to);
    graph.predecessors[size_t(to)].push_back(from);
  }
  return graph;
}

std::vector<int> find_cycle(const Dag& graph) {
  std::vector<int> waiting(size_t(graph.size()));
  std::vector<int> ready;
  for (int v = 0; v < graph.size(); ++v) {
    waiting[size_t(v)] = int(graph.predecessors[size_t(v)].size());
    if (waiting[size_t(v)] == 0) ready.push_back(v);
  }
  while (!ready.empty()) {
    const int v = ready.back();
    ready.pop_back();
    for (int next : graph.successors[size_t(v)])
      if (--waiting[size_t(next)] == 0) ready.push_back(next);
  }
  const auto stuck = std::find_if(waiting.begin(), waiting.end(), [](int count) { return count > 0; });
  if (stuck == waiting.end()) return {};
  // Each blocked vertex has a blocked predecessor, so following predecessors must reach a vertex twice.
  std::vector<int> path{int(stuck - waiting.begin())};
  while (true) {
    const auto& before = graph.predecessors[size_t(path.back())];
    const int v = *std::find_if(before.begin(), before.end(), [&](int p) { return waiting[size_t(p)] > 0; });
    if (const auto again = std::find(path.begin(), path.end(), v); again != path.end()) {
      std::vector<int> cycle(again, path.end());
      std::reverse(cycle.begin(), cycle.end());
      return cycle;
    }
    path.push_back(v);
  }
}

std::vector<int> strong_components(const Dag& graph) {
  const size_t count = size_t(graph.size());
  // Kosaraju: finish times by a depth-first search along the edges; components by searches against the edges, in
  // reverse order of finish.
  std::vector<int> finished, component(count, -1);
  std::vector<char> seen(count, 0);
  for (int start = 0; start < int(count); ++start) {
    if (seen[size_t(start)]) continue;
    std::vector<std::pair<int, size_t>> path{{start, 0}};
    seen[size_t(start)] = 1;
    while (!path.empty()) {
      auto& [v, edge] = path.back();
      if (edge == graph.successors[size_t(v)].size()) {
        finished.push_back(v);
        path.pop_back();
        continue;
      }
      const int next = graph.successors[size_t(v)][edge++];
      if (seen[size_t(next)]) continue;
      seen[size_t(next)] = 1;
      path.push_back({next, 0});
    }
  }
  int components = 0;
  for (auto start = finished.rbegin(); start != finished.rend(); ++start) {
    if (component[size_t(*start)] >= 0) continue;
    std::vector<int> todo{*start};
    component[size_t(*start)] = components;
    while (!todo.empty()) {
      const int v = todo.back();
      todo.pop_back();
      for (int before : graph.predecessors[size_t(v)]) {
        if (component[size_t(before)] >= 0) continue;
        component[size_t(before)] = components;
        todo.push_back(before);
      }
    }
    ++components;
  }
  return component;
}

std::vector<int> topological_order(const Dag& graph, Order order) {
  std::vector<int> waiting(size_t(graph.size())), result;
  std::deque<int> ready;
  for (int v = 0; v < graph.size(); ++v) {
    waiting[size_t(v)] = int(graph.predecessors[size_t(v)].size());
    if (waiting[size_t(v)] == 0) ready.push_back(v);
  }
  while (!ready.empty()) {
    auto chosen = ready.begin();
    if (order == Order::depth_first) chosen = ready.end() - 1;
    if (order == Order::first_number) chosen = std::min_element(ready.begin(), ready.end());
    const int v = *chosen;
    ready.erase(chosen);
    result.push_back(v);
    for (int next : graph.successors[size_t(v)])
      if (--waiting[size_t(next)] == 0) ready.push_back(next);
  }
  return result;
}

std::vector<std::vector<int>> some_topological_orders(const Dag& graph) {
  std::vector<std::vector<int>> orders;
  for (Order order : {Order::first_number, Order::breadth_first, Order::depth_first}) {
    std::vector<int> found = topological_order(graph, order);
    if (std::find(orders.begin(), orders.end(), found) == orders.end()) orders.push_back(std::move(found));
  }
  return orders;
}

}  // namespace trireme
