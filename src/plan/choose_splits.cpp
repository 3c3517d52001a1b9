
#include <algorithm>
#include <map>

#include "plan/named.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Nominal speeds of one CPU core and of shared memory. Only their ratio matters. The planner uses measured speeds
// instead.
constexpr double kFlopsPerSecond = 50e9, kBytesPerSecond = 5e9, kSecondsPerMove = 20e-6;
constexpr double kBytesPerElement = 4, kBackwardToForward = 2;
constexpr size_t kBeamWidth = 64;

/// Returns the fraction of the whole tensor's bytes that each worker sends when the tensor is redistributed over n
/// workers.
double bytes_factor(const Placement& from, const Placement& to, int n) {
  const double share = double(n - 1) / n;
  if (from == to || from.is_replicate()) return 0;                  // no communication, or a local slice
  if (from.is_partial()) return to.is_shard() ? share : 2 * share;  // reduce-scatter, all-reduce
  return to.is_replicate() ? share : share / n;                     // all-gather, all-to-all
}

double move_seconds(const Placement& from, const Placement& to, int n, double elements) {
  double factor = bytes_factor(from, to, n);
  return factor == 0 ? 0 : kSecondsPerMove + factor * elements * kBytesPerElement / kBytesPerSecond;
}

struct Partial {
  double cost = 0;
  std::vector<int> choice;  // option index by node; -1: not chosen yet
  bool shards_parameters = false;
};

class SplitSearch {
 public:
  SplitSearch(const Model& model, int degree, int64_t samples, std::string_view also)
      : model_(model), degree_(degree), samples_(double(samples)) {
    options_.resize(model.nodes().size());
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) {
      options_[size_t(id)] = model.node(id).layer->sharding_options(model.input_shapes(id), degree);
      std::erase_if(options_[size_t(id)], [&](const ShardingOption& option) {
        return option.name != also && holds_weights_whole(*model.node(id).layer, option);
      });
    }
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
      for (const ParameterSpec& p : model.node(id).layer->parameters()) ++users_[p.name];
    tied_.resize(model.nodes().size());
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id)
      for (const ParameterSpec& p : model.node(id).layer->parameters())
        tied_[size_t(id)] = tied_[size_t(id)] || users_[p.name] > 1;
    for (NodeId id = model.input_count(); id < NodeId(model.nodes().size()); ++id) insist_on(also, id);
  }

  std::vector<std::string> run() {
    std::vector<Partial> beam{{0, std::vector<int>(model_.nodes().size(), -1), false}};
    for (NodeId id = model_.input_count(); id < NodeId(model_.nodes().size()); ++id) beam = advance(beam, id);
    // The user asks for a tensor axis in order to divide parameters. So the choice divides some, even if a small model
    // would be faster without.
    auto found = std::find_if(beam.begin(), beam.end(), [](const Partial& p) { return p.shards_parameters; });
    const Partial& best = found != beam.end() ? *found : beam.front();
    std::vector<std::string> names(model_.nodes().size(), "replicate");
    for (NodeId id = model_.input_count(); id < NodeId(names.size()); ++id)
      names[size_t(id)] = options_[size_t(id)][size_t(best.choice[size_t(id)])].name;
    return names;
  }

 private:
  /// True if the option splits activations only and leaves the layer's weights whole. The small parameters of norms do
  /// not count.
  static bool holds_weights_whole(const Layer& layer, const ShardingOption& option) {
    const auto parameters = layer.parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      if (option.parameter_gradients[i].is_partial() && !parameters[i].full_precision) return true;
    return false;
  }

  /// Leaves the node only the option called `also`, if it has that option and shares no parameter. "height" applies to
  /// all layers on images; "sequence" only to layers whose work cannot be divided in another way.
  void insist_on(std::string_view also, NodeId id) {
    auto& options = options_[size_t(id)];
    const auto asked =
        std::find_if(options.begin(), options.end(), [&](const ShardingOption& option) { return option.name == also; });
    if (asked == options.end() || tied_[size_t(id)]) return;
    const bool divides_otherwise = std::any_of(options.begin(), options.end(), [&](const ShardingOption& option) {
      return option.divides_work && option.name != also;
    });
    if (also == "sequence" && divides_otherwise) return;
    options = {ShardingOption(*asked)};
  }

  static bool cheaper(const Partial& a, const Partial& b) { return a.cost < b.cost; }

  /// Extends each partial choice by each option of node `id`. Two choices that agree on every node that later layers
  /// read cost the same from here on, so only the cheaper one is kept.
  std::vector<Partial> advance(const std::vector<Partial>& beam, NodeId id) const {
    std::map<std::vector<int>, Partial> kept;
    const std::vector<NodeId> live = live_after(id);
    for (const Partial& partial : beam)
      for (size_t option = 0; option < options_[size_t(id)].size(); ++option) {
        if (!agrees_with_tied(partial, id, options_[size_t(id)][option])) continue;
        Partial next = partial;
        next.choice[size_t(id)] = int(option);
        next.cost += layer_cost(next, id);
        next.shards_parameters = next.shards_parameters || shards_parameters(options_[size_t(id)][option]);
        auto [it, fresh] = kept.emplace(frontier(next, live), next);
        if (!fresh && cheaper(next, it->second)) it->second = std::move(next);
      }
    std::vector<Partial> result;
    for (auto& [key, partial] : kept) result.push_back(std::move(partial));
    std::sort(result.begin(), result.end(), cheaper);
    trim(result);
    check_internal(!result.empty(), "replicate is always among a layer's sharding options");
    return result;
  }

  static bool shards_parameters(const ShardingOption& option) {
    return std::any_of(option.parameters.begin(), option.parameters.end(),
                       [](const Placement& p) { return p.is_shard(); });
  }

  /// Cuts the list to kBeamWidth. The cheapest choices stay, and always the cheapest one that shards parameters.
  static void trim(std::vector<Partial>& sorted) {
    if (sorted.size() <= kBeamWidth) return;
    auto split = std::find_if(sorted.begin(), sorted.end(), [](const Partial& p) { return p.shards_parameters; });
    if (split != sorted.end() && size_t(split - sorted.begin()) >= kBeamWidth)
      std::swap(sorted[kBeamWidth - 1], *split);
    sorted.resize(kBeamWidth);
  }

  double layer_cost(const Partial& partial, NodeId id) const {
    const Node& node = model_.node(id);
    const ShardingOption& option = options_[size_t(id)][size_t(partial.choice[size_t(id)])];
    double flops = node.layer->forward_flops(model_.input_shapes(id)) * samples_ * (1 + kBackwardToForward);
    double cost = flops / kFlopsPerSecond / (option.divides_work ? degree_ : 1);
    // memory traffic of the output, so that elementwise layers prefer to stay split too
    bool split = option.output.is_shard();
    // whole parameters with partial gradients: an all-reduce over the tensor axis
    const auto parameters = node.layer->parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      if (option.parameter_gradients[i].is_partial())
        cost += move_seconds(Placement::partial(), Placement::replicate(), degree_,
                             double(element_count(parameters[i].shape)));
    cost +=
        element_count(node.sample_shape) * samples_ * kBytesPerElement * 3 / kBytesPerSecond / (split ? degree_ : 1);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      NodeId source = node.inputs[i];
      if (source < model_.input_count()) continue;
      const ShardingOption& from = options_[size_t(source)][size_t(partial.choice[size_t(source)])];
      double elements = element_count(model_.node(source).sample_shape) * samples_;
      cost += move_seconds(from.output, option.inputs[i], degree_, elements);
      cost += move_seconds(option.input_gradients[i], gradient_needed(from.output), degree_, elements);
    }
    return cost;
  }

  /// The nodes up to `id` that later nodes still read, and the layers whose parameters are shared.
  std::vector<NodeId> live_after(NodeId id) const {
    std::vector<NodeId> live;
    for (NodeId n = model_.input_count(); n <= id; ++n) {
      const auto& consumers = model_.consumers(n);
      if (has_tied(n) || std::any_of(consumers.begin(), consumers.end(), [&](NodeId c) { return c > id; }))
        live.push_back(n);
    }
    return live;
  }

  /// Returns the chosen options of these nodes. The cost of all later choices depends on nothing else.
  std::vector<int> frontier(const Partial& partial, const std::vector<NodeId>& live) const {
    std::vector<int> key;
    key.reserve(live.size() + 1);
    for (const NodeId n : live) key.push_back(partial.choice[size_t(n)]);
    key.push_back(partial.shards_parameters);
    return key;
  }

  bool has_tied(NodeId id) const { return tied_[size_t(id)]; }

  bool agrees_with_tied(const Partial& partial, NodeId id, const ShardingOption& option) const {
    if (!has_tied(id)) return true;
    auto parameters = model_.node(id).layer->parameters();
    for (NodeId n = model_.input_count(); n < id; ++n) {
      if (!has_tied(n)) continue;
      auto earlier = model_.node(n).layer->parameters();
      for (size_t a = 0; a < earlier.size(); ++a)
        for (size_t b = 0; b < parameters.size(); ++b)
          if (earlier[a].name == parameters[b].name &&
              options_[size_t(n)][size_t(partial.choice[size_t(n)])].parameters[a] != option.parameters[b])
            return false;
    }
    return true;
  }

  const Model& model_;
  std::map<std::string, int> users_;  // number of layers that use each parameter
  std::vector<bool> tied_;            // by node: true if it shares a parameter with another node
  int degree_;
  double samples_;
  std::vector<std::vector<ShardingOption>> options_;
};

}  // namespace

std::vector<std::string> choose_splits(const Model& model, int degree, int64_t samples, std::string_view also) {
  return SplitSearch(model, degree, samples, also).run();
}

}  // namespace trireme
