#include "plan/branches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/counted.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Returns true for the nodes on which the loss depends. Other nodes belong to no region.
std::vector<bool> reach_loss(const Model& model) {
  std::vector<bool> reach(model.nodes().size(), false);
  reach[size_t(model.loss())] = true;
  for (NodeId id = model.loss(); id >= 0; --id)
    if (reach[size_t(id)])
      for (NodeId input : model.node(id).inputs) reach[size_t(input)] = true;
  return reach;
}

/// The post-dominator tree. A node's parent is its immediate post-dominator: the first node on all paths from it to the
/// end. The root, numbered one past the last node, represents the end.
class PostDominators {
 public:
  PostDominators(const Model& model, const std::vector<bool>& reach)
      : end_(NodeId(model.nodes().size())), parent_(size_t(end_), end_), depth_(size_t(end_) + 1, 0) {
    for (NodeId id = end_ - 1; id >= 0; --id) {
      bool first = true;
      for (NodeId consumer : model.consumers(id)) {
        if (!reach[size_t(consumer)]) continue;
        parent_[size_t(id)] = first ? consumer : common(parent_[size_t(id)], consumer);
        first = false;
      }
      depth_[size_t(id)] = depth_[size_t(parent_[size_t(id)])] + 1;
    }
  }

  /// Returns the node's immediate post-dominator; `end()` if its paths converge at no node.
  NodeId of(NodeId id) const { return parent_[size_t(id)]; }
  NodeId end() const { return end_; }

 private:
  NodeId common(NodeId a, NodeId b) const {
    while (a != b) {
      if (depth_[size_t(a)] >= depth_[size_t(b)]) a = parent_[size_t(a)];
      else b = parent_[size_t(b)];
    }
    return a;
  }

  NodeId end_;
  std::vector<NodeId> parent_;
  std::vector<int> depth_;
};

/// Returns the layers between fork and join, in groups that share no edge.
std::vector<std::vector<NodeId>> groups_between(const Model& model, const std::vector<bool>& reach, NodeId fork,
                                                NodeId join) {
  std::vector<bool> inside(model.nodes().size(), false);
  std::vector<NodeId> group(model.nodes().size(), -1);  // id of the group's first member
  for (NodeId id = fork + 1; id < join; ++id) {
    const auto& inputs = model.node(id).inputs;
    inside[size_t(id)] = reach[size_t(id)] && std::any_of(inputs.begin(), inputs.end(),
                                                          [&](NodeId i) { return i == fork || inside[size_t(i)]; });
    if (!inside[size_t(id)]) continue;
    group[size_t(id)] = id;
    for (NodeId input : inputs) {
      if (!inside[size_t(input)]) continue;
      const NodeId a = std::min(group[size_t(id)], group[size_t(input)]),
                   b = std::max(group[size_t(id)], group[size_t(input)]);
      std::replace(group.begin(), group.end(), b, a);
    }
  }
  std::vector<std::vector<NodeId>> groups;
  for (NodeId first = fork + 1; first < join; ++first) {
    if (group[size_t(first)] != first) continue;
    auto& members = groups.emplace_back();
    for (NodeId id = first; id < join; ++id)
      if (group[size_t(id)] == first) members.push_back(id);
  }
  return groups;
}

}  // namespace

std::vector<BranchRegion> find_branches(const Model& model) {
  const auto reach = reach_loss(model);
  const PostDominators post(model, reach);
  std::vector<BranchRegion> regions;
  for (NodeId fork = 0; fork < post.end(); ++fork) {
    const auto& consumers = model.consumers(fork);
    const auto readers =
        std::count_if(consumers.begin(), consumers.end(), [&](NodeId id) { return reach[size_t(id)]; });
    // Several losses may read a target, but no layer computes anything from it.
    const bool is_target = fork > 0 && fork < model.input_count();
    if (is_target || readers < 2 || !reach[size_t(fork)] || post.of(fork) == post.end()) continue;
    if (!regions.empty() && fork < regions.back().join) continue;  // it lies inside the last region, or parallel to it
    auto branches = groups_between(model, reach, fork, post.of(fork));
    if (branches.size() >= 2) regions.push_back({fork, post.of(fork), std::move(branches)});
  }
  return regions;
}

std::vector<int> place_branches(const std::vector<BranchRegion>& regions, const Model& model, int workers,
                                const LayerSeconds& seconds) {
  std::vector<int> worker_of(model.nodes().size(), 0);
  for (const BranchRegion& region : regions) {
    std::vector<double> weights;
    for (const auto& branch : region.branches)
      weights.push_back(std::accumulate(branch.begin(), branch.end(), 0.0,
                                        [&](double sum, NodeId id) { return sum + seconds[size_t(id)]; }));
    std::vector<size_t> order(weights.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return weights[a] > weights[b]; });
    // ordered by seconds, then number of branches (a branch may take 0 seconds), then rank
    std::vector<std::pair<double, int>> load(static_cast<size_t>(workers));
    for (size_t b : order) {
      const auto least = std::min_element(load.begin(), load.end());
      least->first += weights[b];
      least->second += 1;
      for (NodeId id : region.branches[b]) worker_of[size_t(id)] = int(least - load.begin());
    }
  }
  return worker_of;
}

Plan branch_plan(Plan plan, const Model& model, const LayerSeconds& seconds, const std::string& where) {
  const auto regions = find_branches(model);
  if (regions.empty())
    fail_user({where, fmt::format("model {}", model.name()), "it has no parallel branches", "use another strategy"});
  size_t widest = 0;
  for (const BranchRegion& region : regions) widest = std::max(widest, region.branches.size());
  if (size_t(plan.devices) > widest)
    fail_user({where, counted(plan.devices, "device"),
               fmt::format("the widest block of model {} has {} branches", model.name(), widest),
               fmt::format("use at most {} devices", widest)});
  for (int worker = 0; worker < plan.devices; ++worker) plan.stages.push_back({worker});
  for (int worker : place_branches(regions, model, plan.devices, seconds)) plan.layers.push_back({.stage = worker});
  return plan;
}

Plan replicated(Plan plan, int replicas) {
  const int devices = plan.devices;
  for (std::vector<int>& workers : plan.stages) {
    check_internal(workers.size() == 1, "each layer of one replica is on one worker");
    for (int replica = 1; replica < replicas; ++replica) workers.push_back(replica * devices + workers.front());
  }
  for (LayerPlan& layer : plan.layers) layer.data = replicas;
  plan.devices = replicas * devices;
  return plan;
}

}  // namespace trireme
