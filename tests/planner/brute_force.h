// Reference for the planner: evaluates the cost models by their definitions and lists all plans of small graphs. It
// uses nothing of src/planner but the structs that describe a problem.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "planner/graph_files/latency.h"
#include "planner/graph_files/pipedream.h"
#include "planner/graph_files/placement_file.h"

namespace trireme {

constexpr double kNever = std::numeric_limits<double>::infinity();  // the time of a plan that is not allowed

/// Evaluates plans by the definition of PipeDream's model.
class PipeDreamBruteForce {
 public:
  PipeDreamBruteForce(const LayerGraph& graph, const PipeDreamCosts& costs)
      : graph_(graph), costs_(costs), below_(graph.layers.size()) {
    for (size_t v = 0; v < below_.size(); ++v)
      for (int p : graph.edges.predecessors[v]) below_[v] |= below_[size_t(p)] | 1u << p;
  }

  double best() {
    best_ = kNever;
    extend(0, {}, {});
    return best_;
  }

 private:
  /// Tries all sequences of ideals with all numbers of replicas.
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
      if (costs_.memory && std::ceil(behind / r) * (weights + activations) > *costs_.memory) return kNever;
      worst = std::max(worst, (work + 4 * (r - 1) * weights / (costs_.bandwidth * r)) / r);
      if (s > 0) worst = std::max(worst, 2 * open(done) / (costs_.bandwidth * r));
      done |= sets[s];
      if (s > 0 && s + 1 < sets.size()) worst = std::max(worst, 2 * open(done) / (costs_.bandwidth * r));
    }
    return worst;
  }

  /// Bytes of the activations of the maximal layers of the set, and of each layer below a maximal layer that has a
  /// reader which is not below that layer.
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
  double best_ = kNever;
};

inline void check_pipedream_stages(const LayerGraph& graph, const PipeDreamCosts& costs, const GraphPlan& plan) {
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

/// The largest load of a device; infinity if the placement is not allowed. `is_cpu`: by device.
inline double largest_load(const PlacementProblem& problem, const std::vector<int>& device,
                           const std::vector<bool>& is_cpu) {
  std::vector<double> load(is_cpu.size(), 0), bytes(is_cpu.size(), 0);
  for (size_t v = 0; v < device.size(); ++v) {
    const size_t mine = size_t(device[v]);
    const PlacementNode& node = problem.nodes[v];
    if (!is_cpu[mine] && !node.on_accelerator) return kNever;
    load[mine] += is_cpu[mine] ? node.cpu : node.accelerator;
    bytes[mine] += node.bytes;
    std::set<int> others;
    for (int next : problem.edges.successors[v])
      if (device[size_t(next)] != device[v]) others.insert(device[size_t(next)]);
    if (others.empty()) continue;
    if (!is_cpu[mine]) load[mine] += node.send;
    for (int other : others)
      if (!is_cpu[size_t(other)]) load[size_t(other)] += node.send;
  }
  double worst = 0;
  for (size_t d = 0; d < is_cpu.size(); ++d) {
    if (!is_cpu[d] && bytes[d] > problem.memory) return kNever;
    worst = std::max(worst, load[d]);
  }
  return worst;
}

/// Tries every order of accelerators and CPUs, and every assignment of colours to devices in which no forward edge goes
/// back to an earlier device.
class MaxLoadBruteForce {
 public:
  explicit MaxLoadBruteForce(const PlacementProblem& problem) : problem_(problem), device_(problem.nodes.size(), -1) {
    std::map<int, std::vector<int>> colors;
    for (size_t v = 0; v < problem.nodes.size(); ++v)
      colors[problem.nodes[v].color.value_or(-1 - int(v))].push_back(int(v));
    for (const auto& [color, nodes] : colors) classes_.push_back(nodes);
  }

  double best() {
    const int devices = problem_.accelerators + problem_.cpus;
    for (unsigned cpus = 0; cpus < 1u << devices; ++cpus) {
      if (__builtin_popcount(cpus) != problem_.cpus) continue;
      is_cpu_.clear();
      for (int d = 0; d < devices; ++d) is_cpu_.push_back(cpus >> d & 1);
      assign(0);
    }
    return best_;
  }

 private:
  void assign(size_t klass) {
    if (klass == classes_.size()) {
      best_ = std::min(best_, largest_load(problem_, device_, is_cpu_));
      return;
    }
    for (int d = 0; d < int(is_cpu_.size()); ++d) {
      for (int v : classes_[klass]) device_[size_t(v)] = d;
      if (is_ordered()) assign(klass + 1);
    }
    for (int v : classes_[klass]) device_[size_t(v)] = -1;
  }

  bool is_ordered() const {
    for (size_t v = 0; v < device_.size(); ++v)
      for (int next : problem_.edges.successors[v])
        if (!problem_.nodes[size_t(next)].backward && device_[size_t(next)] >= 0 && device_[v] > device_[size_t(next)])
          return false;
    return true;
  }

  const PlacementProblem& problem_;
  std::vector<std::vector<int>> classes_;
  std::vector<int> device_;  ///< per node; -1: not yet
  std::vector<bool> is_cpu_;
  double best_ = kNever;
};

/// Raises ready times until nothing changes; infinity if they never settle, because a part waits for itself.
inline double simulated_latency(const PlacementProblem& problem, const DevicePlacement& placement) {
  const size_t count = placement.size();
  std::vector<double> load(size_t(problem.accelerators) + 1, 0), bytes(load.size(), 0), ready(count, 0);
  for (size_t v = 0; v < count; ++v) {
    const PlacementNode& node = problem.nodes[v];
    const size_t device = size_t(placement[v]);
    if (device == 0 ? problem.cpus == 0 : !node.on_accelerator) return kNever;
    for (size_t u = 0; u < v; ++u)
      if (node.color && node.color == problem.nodes[u].color && placement[u] != placement[v]) return kNever;
    bytes[device] += node.bytes;
    load[device] += node.accelerator;
    std::set<int> others;
    for (int next : problem.edges.successors[v])
      if (placement[size_t(next)] != placement[v]) others.insert(placement[size_t(next)]);
    if (!others.empty()) load[device] += node.send;
    for (int other : others) load[size_t(other)] += node.send;
  }
  for (size_t d = 1; d < bytes.size(); ++d)
    if (bytes[d] > problem.memory) return kNever;
  for (size_t sweep = 0; sweep <= 2 * count + load.size(); ++sweep) {
    std::vector<double> start(load.size(), 0), next = ready;
    for (size_t v = 0; v < count; ++v)
      for (int reader : problem.edges.successors[v]) {
        const size_t device = size_t(placement[size_t(reader)]);
        if (device == 0)
          next[size_t(reader)] = std::max(next[size_t(reader)], ready[v] + problem.nodes[size_t(reader)].cpu);
        else if (placement[v] != placement[size_t(reader)]) start[device] = std::max(start[device], ready[v]);
      }
    for (size_t v = 0; v < count; ++v)
      next[v] = std::max(
          next[v], placement[v] == 0 ? problem.nodes[v].cpu : start[size_t(placement[v])] + load[size_t(placement[v])]);
    if (next == ready) {
      double latency = 0;
      for (double time : ready) latency = std::max(latency, time);
      return latency;
    }
    ready = next;
  }
  return kNever;
}

/// Lists placements on equal accelerators; of placements that differ only in their numbering, one.
inline double latency_brute_force(const PlacementProblem& problem) {
  double best = kNever;
  DevicePlacement placement(problem.nodes.size(), 0);
  const auto assign = [&](const auto& again, size_t node, int used) -> void {
    if (node == placement.size()) {
      best = std::min(best, simulated_latency(problem, placement));
      return;
    }
    for (int device = problem.cpus > 0 ? 0 : 1; device <= std::min(used + 1, problem.accelerators); ++device) {
      placement[node] = device;
      again(again, node + 1, std::max(used, device));
    }
  };
  assign(assign, 0, 0);
  return best;
}

}  // namespace trireme
