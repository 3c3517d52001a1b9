// A good placement for latency, as the start of the integer program.
#include <algorithm>
#include <random>
#include <set>

#include "base/infinity.h"
#include "planner/graph_files/color_graph.h"
#include "planner/graph_files/latency.h"

namespace trireme {
namespace {

constexpr int kRandomOrders = 16;
constexpr uint64_t kSeed = 20200612;  // fixed, so that the orders are the same each time

std::vector<int> random_order(const Dag& graph, std::mt19937_64& random) {
  std::vector<int> waiting, ready, order;
  for (int v = 0; v < graph.size(); ++v) {
    waiting.push_back(int(graph.predecessors[size_t(v)].size()));
    if (waiting.back() == 0) ready.push_back(v);
  }
  while (!ready.empty()) {
    std::swap(ready[random() % ready.size()], ready.back());
    const int v = ready.back();
    ready.pop_back();
    order.push_back(v);
    for (int next : graph.successors[size_t(v)])
      if (--waiting[size_t(next)] == 0) ready.push_back(next);
  }
  return order;
}

DevicePlacement to_nodes(const ColorGraph& graph, const std::vector<int>& device_of_class, size_t nodes) {
  DevicePlacement placement(nodes, kOnCpu);
  for (size_t c = 0; c < graph.classes.size(); ++c)
    for (int v : graph.classes[c].nodes) placement[size_t(v)] = device_of_class[c];
  return placement;
}

/// The best division of an order into runs for accelerators and single classes for CPUs, as if they ran one after the
/// other.
std::vector<int> cut_order(const PlacementProblem& problem, const ColorGraph& graph, const std::vector<int>& order) {
  const size_t count = order.size(), most = size_t(std::min<int>(problem.accelerators, int(count)));
  const auto klass = [&](size_t i) -> const ColorClass& { return graph.classes[size_t(order[i])]; };
  struct Cell {
    double time = kInfinity;
    size_t begin = 0;
    bool accelerator = false;
  };
  std::vector<std::vector<Cell>> best(count + 1, std::vector<Cell>(most + 1));
  best[0].assign(most + 1, {0.0, 0, false});
  std::vector<char> inside(count, 0);
  for (size_t end = 1; end <= count; ++end) {
    if (problem.cpus > 0)
      for (size_t a = 0; a <= most; ++a) best[end][a] = {best[end - 1][a].time + klass(end - 1).cpu, end - 1, false};
    std::fill(inside.begin(), inside.end(), 0);
    double work = 0, bytes = 0;
    for (size_t begin = end; most > 0 && begin-- > 0;) {
      work += klass(begin).accelerator;
      bytes += klass(begin).bytes;
      if (!klass(begin).on_accelerator || bytes > problem.memory) break;
      inside[size_t(order[begin])] = 1;
      const double load = work + communication(graph, inside);
      for (size_t a = 1; a <= most; ++a)
        if (best[begin][a - 1].time + load < best[end][a].time)
          best[end][a] = {best[begin][a - 1].time + load, begin, true};
    }
  }
  if (best[count][most].time == kInfinity) return {};
  std::vector<int> devices(count, kOnCpu);
  size_t a = most;
  for (size_t end = count; end > 0;) {
    const Cell& cell = best[end][a];
    if (cell.accelerator) {
      for (size_t i = cell.begin; i < end; ++i) devices[size_t(order[i])] = int(a);
      --a;
    }
    end = cell.begin;
  }
  return devices;
}

/// Moves single classes to a neighbour's device, a CPU or an idle accelerator, repeatedly while that reduces the
/// latency.
double improve(const PlacementProblem& problem, const ColorGraph& graph, std::vector<int>& devices, double latency,
               const Deadline& deadline) {
  const size_t nodes = problem.nodes.size();
  for (bool moved = true; moved && !deadline.passed();) {
    moved = false;
    for (size_t c = 0; c < devices.size(); ++c) {
      std::set<int> targets{kOnCpu};
      for (int next : graph.order.successors[c]) targets.insert(devices[size_t(next)]);
      for (int before : graph.order.predecessors[c]) targets.insert(devices[size_t(before)]);
      for (int a = 1; a <= problem.accelerators; ++a)
        if (std::find(devices.begin(), devices.end(), a) == devices.end()) {
          targets.insert(a);
          break;
        }
      for (int target : targets) {
        const int old = devices[c];
        if (target == old) continue;
        devices[c] = target;
        const auto found = placement_latency(problem, to_nodes(graph, devices, nodes));
        if (found && *found < latency) {
          latency = *found;
          moved = true;
        } else {
          devices[c] = old;
        }
      }
    }
  }
  return latency;
}

}  // namespace

std::optional<DevicePlacement> quick_placement(const PlacementProblem& problem, const Deadline& deadline) {
  const ColorGraph graph = color_graph(problem, true);
  std::vector<std::vector<int>> orders = some_topological_orders(graph.order);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < kRandomOrders; ++i) orders.push_back(random_order(graph.order, random));
  std::vector<int> best;
  double latency = kInfinity;
  const auto consider = [&](const std::vector<int>& devices) {
    if (devices.empty()) return;
    const auto found = placement_latency(problem, to_nodes(graph, devices, problem.nodes.size()));
    if (!found || *found >= latency) return;
    latency = *found;
    best = devices;
  };
  consider(std::vector<int>(graph.classes.size(), kOnCpu));
  for (const auto& order : orders) {
    if (!best.empty() && deadline.passed()) break;
    consider(cut_order(problem, graph, order));
  }
  if (best.empty()) return std::nullopt;
  improve(problem, graph, best, latency, deadline);
  return to_nodes(graph, best, problem.nodes.size());
}

}  // namespace trireme
