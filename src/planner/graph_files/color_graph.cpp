#include "planner/graph_files/color_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace trireme {
namespace {

/// Disjoint sets of classes (union-find).
class Merger {
 public:
  explicit Merger(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int find(int v) {
    while (parent_[size_t(v)] != v) v = parent_[size_t(v)] = parent_[size_t(parent_[size_t(v)])];
    return v;
  }
  void merge(int a, int b) { parent_[size_t(find(a))] = find(b); }

  /// By element: the number of its set, counted from 0 in the order of first elements.
  std::vector<int> numbers() {
    std::map<int, int> number;
    std::vector<int> result;
    for (int v = 0; v < int(parent_.size()); ++v)
      result.push_back(number.emplace(find(v), int(number.size())).first->second);
    return result;
  }

 private:
  std::vector<int> parent_;
};

std::vector<int> classes_of_colors(const PlacementProblem& problem) {
  Merger merger(problem.nodes.size());
  std::map<int, int> first_of_color;
  for (int v = 0; v < int(problem.nodes.size()); ++v)
    if (const auto color = problem.nodes[size_t(v)].color)
      merger.merge(v, first_of_color.emplace(*color, v).first->second);
  return merger.numbers();
}

/// Edges between classes that order ideals must respect.
std::vector<std::pair<int, int>> order_edges(const PlacementProblem& problem, const std::vector<int>& class_of) {
  const int classes = 1 + *std::max_element(class_of.begin(), class_of.end());
  std::vector<char> has_forward(size_t(classes), 0);
  for (size_t v = 0; v < problem.nodes.size(); ++v)
    if (!problem.nodes[v].backward) has_forward[size_t(class_of[v])] = 1;
  std::vector<std::pair<int, int>> edges;
  for (size_t v = 0; v < problem.nodes.size(); ++v)
    for (int next : problem.edges.successors[v]) {
      const int from = class_of[v], to = class_of[size_t(next)];
      if (from == to) continue;
      if (!problem.nodes[size_t(next)].backward) edges.push_back({from, to});
      else if (problem.nodes[v].backward && !(has_forward[size_t(from)] && has_forward[size_t(to)]))
        edges.push_back({to, from});
    }
  return edges;
}

using Edges = std::vector<std::pair<int, int>>;

ColorGraph build(const PlacementProblem& problem, const std::vector<int>& class_of, const Edges& order) {
  ColorGraph graph;
  const size_t classes = 1 + size_t(*std::max_element(class_of.begin(), class_of.end()));
  graph.classes.resize(classes);
  graph.owned.resize(classes);
  graph.read.resize(classes);
  for (size_t v = 0; v < problem.nodes.size(); ++v) {
    const PlacementNode& node = problem.nodes[v];
    ColorClass& mine = graph.classes[size_t(class_of[v])];
    mine.nodes.push_back(int(v));
    mine.on_accelerator = mine.on_accelerator && node.on_accelerator;
    mine.cpu += node.cpu;
    mine.accelerator += node.accelerator;
    mine.bytes += node.bytes;
    std::set<int> readers;
    for (int next : problem.edges.successors[v]) readers.insert(class_of[size_t(next)]);
    readers.erase(class_of[v]);
    if (readers.empty() || node.send == 0) continue;
    for (int reader : readers) graph.read[size_t(reader)].push_back(int(graph.outputs.size()));
    graph.owned[size_t(class_of[v])].push_back(int(graph.outputs.size()));
    graph.outputs.push_back({node.send, class_of[v], {readers.begin(), readers.end()}});
  }
  graph.order = make_dag(int(classes), order);
  return graph;
}

/// By class: the class into which it may be merged at no cost; -1: none.
std::vector<int> hosts_of_free_leaves(const PlacementProblem& problem, const std::vector<int>& class_of,
                                      const ColorGraph& graph, bool memory_may_run_out) {
  std::vector<std::set<int>> neighbours(graph.classes.size());
  for (size_t v = 0; v < problem.nodes.size(); ++v)
    for (int next : problem.edges.successors[v]) {
      const int a = class_of[v], b = class_of[size_t(next)];
      if (a == b) continue;
      neighbours[size_t(a)].insert(b);
      neighbours[size_t(b)].insert(a);
    }
  std::vector<int> hosts(graph.classes.size(), -1);
  for (size_t c = 0; c < graph.classes.size(); ++c) {
    const ColorClass& leaf = graph.classes[c];
    if (leaf.cpu > 0 || leaf.accelerator > 0 || !leaf.on_accelerator || neighbours[c].size() != 1) continue;
    if (memory_may_run_out && leaf.bytes > 0) continue;
    const int host = *neighbours[c].begin();
    if (hosts[size_t(host)] != int(c))
      hosts[c] = host;  // of two classes that are each other's only neighbour, one
                        // remains
  }
  return hosts;
}

}  // namespace

ColorGraph color_graph(const PlacementProblem& problem, bool memory_may_run_out) {
  std::vector<int> class_of = classes_of_colors(problem);
  Edges order = order_edges(problem, class_of);
  const auto join = [&](const std::vector<int>& number) {
    for (int& c : class_of) c = number[size_t(c)];
    Edges between;
    for (const auto& [from, to] : order)
      if (number[size_t(from)] != number[size_t(to)]) between.push_back({number[size_t(from)], number[size_t(to)]});
    order = std::move(between);
  };
  join(strong_components(make_dag(1 + *std::max_element(class_of.begin(), class_of.end()), order)));
  while (true) {
    ColorGraph graph = build(problem, class_of, order);
    const std::vector<int> hosts = hosts_of_free_leaves(problem, class_of, graph, memory_may_run_out);
    if (std::all_of(hosts.begin(), hosts.end(), [](int host) { return host < 0; })) return graph;
    Merger merger(graph.classes.size());
    for (size_t c = 0; c < hosts.size(); ++c)
      if (hosts[c] >= 0) merger.merge(int(c), hosts[c]);
    join(merger.numbers());
  }
}

double communication(const ColorGraph& graph, const std::vector<char>& inside) {
  double sum = 0;
  for (const ClassOutput& output : graph.outputs) {
    const bool owned = inside[size_t(output.owner)] != 0;
    const auto across = [&](int reader) { return (inside[size_t(reader)] != 0) != owned; };
    if (std::any_of(output.readers.begin(), output.readers.end(), across)) sum += output.send;
  }
  return sum;
}

}  // namespace trireme
