#include "validation/graph_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "validation/shape_layer.h"

namespace trireme::validation {
namespace {

constexpr int64_t kFloat = 4;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t elements_of(double bytes, int64_t samples) {
  return std::max<int64_t>(1, std::llround(bytes / double(kFloat) / double(samples)));
}

/// The best cuts along one order of the layers, by dynamic programming over the end of each stage.
class ChainCut {
 public:
  ChainCut(const LayerGraph& graph, const std::vector<int>& order, const std::vector<int>& replicas, double bandwidth)
      : order_(order),
        replicas_(replicas),
        bandwidth_(bandwidth),
        seconds_(order.size() + 1, 0),
        weights_(order.size() + 1, 0),
        open_(order.size() + 1, 0) {
    std::vector<size_t> place(order.size());
    for (size_t i = 0; i < order.size(); ++i) place[size_t(order[i])] = i;
    for (size_t i = 0; i < order.size(); ++i) {
      const LayerProfile& layer = graph.layers[size_t(order[i])];
      seconds_[i + 1] = seconds_[i] + layer.forward + layer.backward;
      weights_[i + 1] = weights_[i] + layer.parameter_bytes;
      size_t last = i;  // index of the last layer that reads the output
      for (int next : graph.edges.successors[size_t(order[i])]) last = std::max(last, place[size_t(next)]);
      for (size_t cut = i + 1; cut <= last; ++cut) open_[cut] += layer.activation_bytes;
    }
  }

  /// The smallest possible greatest load. `ends`: the end of each stage but the last.
  double solve(std::vector<size_t>& ends) const {
    const size_t count = order_.size();
    std::vector<std::vector<double>> best(replicas_.size() + 1, std::vector<double>(count + 1, kInfinity));
    std::vector<std::vector<size_t>> from(replicas_.size() + 1, std::vector<size_t>(count + 1, 0));
    best[0][0] = 0;
    for (size_t stage = 0; stage < replicas_.size(); ++stage)
      for (size_t end = 1; end <= count; ++end)
        for (size_t begin = 0; begin < end; ++begin) {
          const double load = std::max(best[stage][begin], load_of(stage, begin, end));
          if (load >= best[stage + 1][end]) continue;
          best[stage + 1][end] = load;
          from[stage + 1][end] = begin;
        }
    ends.assign(replicas_.size() - 1, 0);
    for (size_t stage = replicas_.size(), end = count; stage > 1; --stage) ends[stage - 2] = end = from[stage][end];
    return best[replicas_.size()][count];
  }

 private:
  double load_of(size_t stage, size_t begin, size_t end) const {
    const double r = replicas_[stage];
    const double working =
        (seconds_[end] - seconds_[begin] + 4 * (r - 1) / r * (weights_[end] - weights_[begin]) / bandwidth_) / r;
    const double sending =
        end < order_.size() ? 2 * open_[end] / (bandwidth_ * std::max(1.0, std::min<double>(r, replicas_[stage + 1])))
                            : 0;
    return std::max(working, sending);
  }

  const std::vector<int>& order_;
  const std::vector<int>& replicas_;
  const double bandwidth_;
  std::vector<double> seconds_, weights_;  // sums over the first i layers
  std::vector<double> open_;               // bytes that cross a cut behind layer i
};

}  // namespace

GraphModel make_graph_model(const LayerGraph& graph, int64_t batch) {
  ModelBuilder builder("profile");
  const NodeId data = builder.input("data", {1}), target = builder.input("target", {1});
  GraphModel made;
  made.nodes.assign(graph.layers.size(), -1);
  int sink = -1;
  for (int v : topological_order(graph.edges, Order::first_number)) {
    const LayerProfile& layer = graph.layers[size_t(v)];
    std::vector<NodeId> inputs;
    for (int before : graph.edges.predecessors[size_t(v)]) inputs.push_back(made.nodes[size_t(before)]);
    if (inputs.empty()) inputs = {data};
    ShapeLayer::Facts facts{.output = {elements_of(layer.activation_bytes, batch)}};
    if (layer.parameter_bytes > 0) facts.parameters = {{elements_of(layer.parameter_bytes, 1)}};
    made.nodes[size_t(v)] = builder.layer<ShapeLayer>(inputs, layer.name, std::move(facts));
    const auto whole = [&](int of) { return graph.layers[size_t(of)].forward + graph.layers[size_t(of)].backward; };
    if (graph.edges.successors[size_t(v)].empty() && (sink < 0 || whole(v) > whole(sink))) sink = v;
  }
  const NodeId output = made.nodes[size_t(sink)];
  const NodeId loss = builder.layer<ShapeLayer>({output, target}, "loss", ShapeLayer::Facts{.output = {}});
  made.model = builder.finish(output, loss);
  return made;
}

GraphCosts::GraphCosts(const GraphModel& model, const LayerGraph& graph, int64_t batch, double memory_bandwidth)
    : forward_(model.model.nodes().size(), 0),
      backward_(model.model.nodes().size(), 0),
      memory_bandwidth_(memory_bandwidth) {
  for (size_t v = 0; v < graph.layers.size(); ++v) {
    forward_[size_t(model.nodes[v])] = graph.layers[v].forward / double(batch);
    backward_[size_t(model.nodes[v])] = graph.layers[v].backward / double(batch);
  }
}

LayerCost GraphCosts::seconds(NodeId node, const ShardingOption&, int, int64_t samples, int) const {
  LayerCost cost;
  cost.forward = forward_[size_t(node)] * double(samples);
  cost.backward = cost.backward_input = backward_[size_t(node)] * double(samples);
  return cost;
}

double GraphCosts::update_seconds(int64_t elements, int contributors, int) const {
  constexpr double kMomentumAndWeights = 4;  // reads and writes two tensors
  return double(elements) * double(kFloat) * (contributors + kMomentumAndWeights) / memory_bandwidth_;
}

std::vector<std::vector<int>> cut_for(const LayerGraph& graph, const std::vector<int>& replicas, double bandwidth) {
  double least = kInfinity;
  std::vector<std::vector<int>> stages;
  for (const std::vector<int>& order : some_topological_orders(graph.edges)) {
    std::vector<size_t> ends;
    const double load = ChainCut(graph, order, replicas, bandwidth).solve(ends);
    if (load >= least) continue;
    least = load;
    stages.assign(replicas.size(), {});
    for (size_t i = 0; i < order.size(); ++i)
      stages[size_t(std::upper_bound(ends.begin(), ends.end(), i) - ends.begin())].push_back(order[i]);
  }
  return stages;
}

}  // namespace trireme::validation
