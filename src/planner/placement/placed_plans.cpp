#include "planner/placement/placed_plans.h"

#include <algorithm>
#include <set>
#include <utility>

#include "plan/branches.h"
#include "plan/strategies.h"

namespace trireme {
namespace {

constexpr int kMostOfReplica = 8;

/// The connection between the devices of a replica, which are the first ones.
Link link_between(const Cluster& cluster, int devices) {
  for (int d = 1; d < devices; ++d)
    if (cluster.devices[size_t(d)].node != cluster.devices[0].node) return cluster.network;
  return cluster.nodes.empty() ? Link{} : cluster.nodes[size_t(cluster.devices[0].node)].link;
}

/// `samples`: of a replica.
OperatorProblem problem_of(const PlanRequest& request, int devices, int64_t samples) {
  const Model& model = request.model;
  const Link link = link_between(request.cluster, devices);
  OperatorProblem problem{.devices = devices, .items = {}, .bandwidth = link.bandwidth, .latency = link.latency};
  const int first = model.input_count();
  for (NodeId id = first; id < NodeId(model.nodes().size()); ++id) {
    const Node& node = model.node(id);
    const ShardingOption whole = node.layer->sharding_options(model.input_shapes(id), 1).front();
    const LayerCost cost = request.costs.seconds(id, whole, 1, samples, request.cluster.devices.front().kind);
    OperatorProblem::Item item{
        .forward = cost.forward,
        .backward = cost.backward,
        .bytes = double(element_count(node.sample_shape)) * double(samples) * request.bytes_per_value};
    for (const NodeId input : std::set<NodeId>(node.inputs.begin(), node.inputs.end()))
      if (input >= first) item.inputs.push_back(input - first);
    problem.items.push_back(std::move(item));
  }
  return problem;
}

}  // namespace

std::optional<PlacedPlan> placed_plan(const PlanRequest& request, int devices) {
  const Model& model = request.model;
  const int all = request.cluster.size(), replicas = all / devices;
  if (all % devices != 0 || replicas > request.batch) return std::nullopt;
  const OperatorProblem problem = problem_of(request, devices, request.batch / replicas);
  const OperatorPlacement placement = find_placement(problem);
  if (std::set<int>(placement.device_of.begin(), placement.device_of.end()).size() < size_t(devices))
    return std::nullopt;
  PlacedPlan placed{.plan = {},
                    .devices = devices,
                    .seconds = placement.seconds,
                    .bound = placement.bound,
                    .alone = seconds_of(problem, std::vector<int>(problem.items.size(), 0))};
  placed.plan.name = kPlacement.name;
  placed.plan.model = model.name();
  placed.plan.model_fingerprint = model.fingerprint();
  placed.plan.devices = devices;
  for (int device = 0; device < devices; ++device) placed.plan.stages.push_back({device});
  placed.plan.layers.resize(model.nodes().size());
  for (size_t i = 0; i < placement.device_of.size(); ++i)
    placed.plan.layers[i + size_t(model.input_count())] = {.stage = placement.device_of[i]};
  placed.plan = replicated(std::move(placed.plan), replicas);
  return placed;
}

std::vector<PlacedPlan> placed_plans(const PlanRequest& request) {
  std::vector<PlacedPlan> plans;
  for (int devices = 2; devices <= std::min(request.cluster.size(), kMostOfReplica); ++devices)
    if (std::optional<PlacedPlan> placed = placed_plan(request, devices)) plans.push_back(std::move(*placed));
  return plans;
}

}  // namespace trireme
