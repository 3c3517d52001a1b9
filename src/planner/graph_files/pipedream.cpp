#include "planner/graph_files/pipedream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/infinity.h"
#include "planner/graph_files/bound_ladder.h"
#include "planner/graph_files/order_ideals.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kSyncVolume = 4;         // of an all-reduce, in (r-1)/r * weights: twice that of a ring
constexpr double kBoundaryVolume = 2;     // activations forward, their gradients backward
constexpr double kOrderRounding = 1e-12;  // relative; of sums of the same numbers in another order
constexpr size_t kStatesPerLookAtTheClock = 256;

/// The layers that the model counts, and the counted layer that each other layer belongs to.
struct Counted {
  std::vector<int> layers;               ///< node numbers of the file's graph
  std::vector<std::vector<int>> guests;  ///< by counted layer: inputs and unread results that belong to it
  Dag graph;
};

Counted counted_layers(const LayerGraph& file) {
  const int count = int(file.layers.size());
  std::vector<int> number(size_t(count), -1);
  Counted counted;
  for (int v = 0; v < count; ++v) {
    const LayerProfile& layer = file.layers[size_t(v)];
    const bool input = file.edges.predecessors[size_t(v)].empty() && layer.description.starts_with("Input");
    const bool unread = file.edges.successors[size_t(v)].empty() && layer.description.starts_with("__getitem__");
    if (input || unread) continue;
    number[size_t(v)] = int(counted.layers.size());
    counted.layers.push_back(v);
  }
  if (counted.layers.empty()) fail_user({"--graph", "", "has only inputs", "there is nothing to plan"});
  std::vector<std::pair<int, int>> edges;
  counted.guests.resize(counted.layers.size());
  for (int v = 0; v < count; ++v) {
    for (int next : file.edges.successors[size_t(v)])
      if (number[size_t(v)] >= 0 && number[size_t(next)] >= 0)
        edges.push_back({number[size_t(v)], number[size_t(next)]});
    if (number[size_t(v)] >= 0) continue;
    const auto& readers = file.edges.successors[size_t(v)];
    const auto& near = readers.empty() ? file.edges.predecessors[size_t(v)] : readers;
    const int host = near.empty() ? -1 : number[size_t(near.front())];
    counted.guests[size_t(std::max(host, 0))].push_back(v);
  }
  counted.graph = make_dag(int(counted.layers.size()), edges);
  return counted;
}

/// The bytes that a cut sends: activations of the last layers before it and, for each of these, of earlier layers with
/// a reader that is not before that last layer. (A tensor that two last layers have read and no later layer reads
/// therefore counts; the official code counts it too.)
class OpenActivations {
 public:
  OpenActivations(const Dag& graph, const std::vector<double>& bytes) : graph_(graph), bytes_(bytes) {
    const size_t count = size_t(graph.size());
    std::vector<VertexSet> upto(count, VertexSet(graph.size()));  // by layer: the layer and all before it
    also_open_.assign(count, VertexSet(graph.size()));
    for (int x : topological_order(graph, Order::first_number)) {
      upto[size_t(x)].insert(x);
      for (int before : graph.predecessors[size_t(x)]) upto[size_t(x)].insert_all(upto[size_t(before)]);
      for (int p = 0; p < graph.size(); ++p) {
        if (p == x || !upto[size_t(x)].contains(p)) continue;
        const auto& readers = graph.successors[size_t(p)];
        if (!std::all_of(readers.begin(), readers.end(), [&](int reader) { return upto[size_t(x)].contains(reader); }))
          also_open_[size_t(x)].insert(p);
      }
    }
  }

  double of(const OrderIdeals& ideals, size_t ideal) const {
    VertexSet open(graph_.size());
    for (int x = 0; x < graph_.size(); ++x) {
      if (!ideals.contains(ideal, x)) continue;
      const auto& readers = graph_.successors[size_t(x)];
      if (std::any_of(readers.begin(), readers.end(), [&](int reader) { return ideals.contains(ideal, reader); }))
        continue;
      open.insert(x);
      open.insert_all(also_open_[size_t(x)]);
    }
    double sum = 0;
    for (int v = 0; v < graph_.size(); ++v)
      if (open.contains(v)) sum += bytes_[size_t(v)];
    return sum;
  }

 private:
  const Dag& graph_;
  const std::vector<double>& bytes_;
  std::vector<VertexSet> also_open_;  ///< by layer x: layers before x with a reader that is neither x nor before x
};

struct Cut {
  size_t ideal;
  int replicas;  ///< of the stage before the cut
};

/// Dynamic program over (ideal, devices used after it), from the end of the graph to its start.
///
/// A stage of r devices that is faster than `bound` does less than r * bound of the work. A cut with f devices after it
/// is therefore useful only if the work after it is below f * bound and the work before it below (devices - f) * bound.
/// This window is narrow if the bound is near the mean. The bound is lowered whenever a better plan is found; the last
/// plan is the optimum.
class PipeDreamSearch {
 public:
  PipeDreamSearch(const OrderIdeals& ideals, const Counted& counted, const LayerGraph& file,
                  const PipeDreamCosts& costs)
      : ideals_(ideals), costs_(costs), used_(size_t(costs.devices) + 1) {
    const size_t count = counted.layers.size();
    std::vector<double> work(count), weights(count), activations(count);
    for (size_t v = 0; v < count; ++v) {
      const LayerProfile& layer = file.layers[size_t(counted.layers[v])];
      work[v] = layer.forward + layer.backward;
      weights[v] = layer.parameter_bytes;
      activations[v] = layer.activation_bytes;
    }
    work_ = ideals.sums(work);
    weights_ = ideals.sums(weights);
    activations_ = ideals.sums(activations);
    const OpenActivations open(counted.graph, activations);
    for (size_t ideal = 0; ideal < ideals.size(); ++ideal) open_.push_back(open.of(ideals, ideal));
  }

  /// The cuts of the best plan below `bound`, which is set to its objective; empty if there is none. `complete` is set
  /// to false if the deadline ended the search.
  std::vector<Cut> run(double& bound, const Deadline& deadline, bool& complete) {
    complete = true;
    std::vector<Cut> best;
    used_[0].assign(1, state(last(), 0));
    for (int used = 1; used <= costs_.devices; ++used) {
      used_[size_t(used)].clear();
      for (size_t ideal = last(); ideal-- > 0;) {
        if (ideal % kStatesPerLookAtTheClock == 0 && deadline.passed()) {
          complete = false;
          return best;
        }
        if (!is_useful(ideal, used, bound)) continue;
        State found = best_stage(ideal, used, bound);
        if (found.bottleneck >= bound) continue;
        if (ideal == 0) {
          bound = found.bottleneck;
          best = cuts_from(found, used);
        } else {
          used_[size_t(used)].push_back(found);
        }
      }
      std::sort(used_[size_t(used)].begin(), used_[size_t(used)].end(),
                [](const State& a, const State& b) { return a.work < b.work; });
    }
    return best;
  }

  double stage_load(size_t from, size_t to, int r) const {
    return ((work_[to] - work_[from]) +
            kSyncVolume * (r - 1) * (weights_[to] - weights_[from]) / (costs_.bandwidth * r)) /
           r;
  }
  double boundary_load(size_t ideal, int r) const { return kBoundaryVolume * open_[ideal] / (costs_.bandwidth * r); }
  double compute(size_t from, size_t to) const { return work_[to] - work_[from]; }

 private:
  struct State {
    double work, bottleneck;  ///< work before the cut; the largest load after it
    int32_t ideal, next;      ///< the cut; index of the next one in the list of `used - replicas`
    int32_t replicas;
  };

  size_t last() const { return ideals_.size() - 1; }
  State state(size_t ideal, double bottleneck) const { return {work_[ideal], bottleneck, int32_t(ideal), -1, 0}; }

  bool is_useful(size_t ideal, int used, double bound) const {
    const double behind = work_[last()] - work_[ideal], slack = kOrderRounding * work_[last()];
    if (behind - slack > used * bound) return false;
    if (ideal == 0) return true;
    return used < costs_.devices && work_[ideal] - slack <= (costs_.devices - used) * bound &&
           boundary_load(ideal, used) < bound;
  }

  /// The stage after the cut `ideal` with the smallest bottleneck below `bound`.
  State best_stage(size_t ideal, int used, double bound) const {
    State best = state(ideal, bound);
    const int most = costs_.straight ? 1 : used;
    for (int r = 1; r <= most; ++r) {
      const double input = ideal == 0 ? 0 : boundary_load(ideal, r);
      if (input >= best.bottleneck) continue;
      const std::vector<State>& after = used_[size_t(used - r)];
      const double least = work_[ideal] - kOrderRounding * work_[last()];
      auto next = std::lower_bound(after.begin(), after.end(), least,
                                   [](const State& s, double work) { return s.work < work; });
      for (; next != after.end() && next->work - work_[ideal] < best.bottleneck * r; ++next) {
        const size_t to = size_t(next->ideal);
        double load = std::max({stage_load(ideal, to, r), next->bottleneck, input});
        if (load >= best.bottleneck) continue;
        if (ideal != 0 && to != last()) load = std::max(load, boundary_load(to, r));
        if (load >= best.bottleneck || to == ideal || !fits(ideal, to, r, used - r) || !ideals_.is_subset(ideal, to))
          continue;
        best.bottleneck = load;
        best.next = int32_t(next - after.begin());
        best.replicas = r;
      }
    }
    return best;
  }

  bool fits(size_t from, size_t to, int r, int behind) const {
    if (!costs_.memory) return true;
    const double bytes = (activations_[to] - activations_[from]) + (weights_[to] - weights_[from]);
    return std::ceil(double(behind) / r) * bytes <= *costs_.memory;
  }

  std::vector<Cut> cuts_from(State at, int used) const {
    std::vector<Cut> cuts;
    while (at.replicas > 0) {
      used -= at.replicas;
      const State next = used_[size_t(used)][size_t(at.next)];
      cuts.push_back({size_t(next.ideal), at.replicas});
      at = next;
    }
    return cuts;
  }

  const OrderIdeals& ideals_;
  const PipeDreamCosts& costs_;
  std::vector<double> work_, weights_, activations_;  ///< by ideal: sums of seconds, bytes, bytes
  std::vector<double> open_;                          ///< by ideal: bytes that it sends as a cut
  std::vector<std::vector<State>> used_;              ///< by number of devices after the cut: states by ascending work
};

GraphPlan to_plan(const std::vector<Cut>& cuts, const PipeDreamSearch& search, const OrderIdeals& ideals,
                  const Counted& counted, double objective) {
  GraphPlan plan;
  plan.objective = objective;
  size_t from = 0;
  for (const Cut& cut : cuts) {
    GraphStage stage;
    for (int v : ideals.difference(from, cut.ideal)) {
      stage.nodes.push_back(counted.layers[size_t(v)]);
      const auto& guests = counted.guests[size_t(v)];
      stage.nodes.insert(stage.nodes.end(), guests.begin(), guests.end());
    }
    std::sort(stage.nodes.begin(), stage.nodes.end());
    stage.replicas = cut.replicas;
    stage.compute = search.compute(from, cut.ideal);
    stage.load = search.stage_load(from, cut.ideal, cut.replicas);
    plan.stages.push_back(std::move(stage));
    from = cut.ideal;
  }
  return plan;
}

/// A lower bound: the devices share the work, and each layer is in some stage.
double simple_bound(const LayerGraph& file, const Counted& counted, const PipeDreamCosts& costs) {
  double work = 0, slowest = 0;
  for (int v : counted.layers) {
    const LayerProfile& layer = file.layers[size_t(v)];
    const double own = layer.forward + layer.backward;
    double best = kInfinity;
    for (int r = 1; r <= (costs.straight ? 1 : costs.devices); ++r)
      best = std::min(best, (own + kSyncVolume * (r - 1) * layer.parameter_bytes / (costs.bandwidth * r)) / r);
    work += own;
    slowest = std::max(slowest, best);
  }
  return std::max(work / costs.devices, slowest);
}

/// Replaces `plan` by a better one, if there is one, and sets its lower bound and proof.
void search_all(const OrderIdeals& ideals, const Counted& counted, const LayerGraph& file, const PipeDreamCosts& costs,
                const Deadline& deadline, GraphPlan& plan) {
  PipeDreamSearch search(ideals, counted, file, costs);
  BoundLadder ladder(plan.lower_bound, plan.objective);
  bool complete = true;
  do {
    double bound = ladder.bound();
    const std::vector<Cut> better = search.run(bound, deadline, complete);
    if (better.empty()) continue;
    plan = to_plan(better, search, ideals, counted, bound);
    break;
  } while (complete && ladder.raise());
  plan.lower_bound = complete ? plan.objective : std::min(plan.objective, ladder.proven());
  plan.states = ideals.size();
  plan.proof = proof_in_words(plan.states, complete);
}

}  // namespace

GraphPlan plan_pipedream(const LayerGraph& file, const PipeDreamCosts& costs, const Deadline& deadline) {
  check_internal(costs.devices >= 1 && costs.bandwidth > 0, "PipeDream's costs need devices and a bandwidth above 0");
  const Counted counted = counted_layers(file);
  const auto orders = some_topological_orders(counted.graph);
  const OrderIdeals few = OrderIdeals::along(counted.graph, orders);
  PipeDreamSearch first(few, counted, file, costs);
  Cut alone{few.size() - 1, 1};  // one stage is always allowed
  for (int r = 1; r <= (costs.straight ? 1 : costs.devices); ++r)
    if (first.stage_load(0, alone.ideal, r) < first.stage_load(0, alone.ideal, alone.replicas)) alone.replicas = r;
  double bound = first.stage_load(0, alone.ideal, alone.replicas);
  bool complete = true;
  std::vector<Cut> cuts = first.run(bound, deadline, complete);
  if (cuts.empty()) cuts.push_back(alone);
  GraphPlan plan = to_plan(cuts, first, few, counted, bound);

  plan.lower_bound = std::min(plan.objective, simple_bound(file, counted, costs));
  const std::optional<OrderIdeals> ideals = OrderIdeals::all(counted.graph);
  if (ideals) search_all(*ideals, counted, file, costs, deadline, plan);
  else plan.proof = proof_in_words(0, false);
  return plan;
}

}  // namespace trireme
