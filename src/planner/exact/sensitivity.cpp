#include "planner/exact/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "planner/exact/least_memory.h"

namespace trireme {
namespace {

Link faster(Link link) {
  link.bandwidth *= 2;
  link.latency /= 2;
  return link;
}

Cluster with_faster_links(Cluster cluster) {
  for (ClusterNode& node : cluster.nodes) node.link = faster(node.link);
  cluster.network = faster(cluster.network);
  return cluster;
}

/// `best` is known: where it still fits, the answer is no worse.
PlanAnswer ask(const PlanRequest& request, const Cluster& cluster, const Plan& best) {
  PlanRequest changed = with_cluster(request, cluster);
  changed.known.push_back(best);
  return request.objective == Objective::time ? find_fastest(changed) : find_plan(changed);
}

}  // namespace

std::vector<WhatIf> what_if(const PlanRequest& request, const RatedPlan& best) {
  std::vector<WhatIf> answers;
  answers.push_back({"links were twice as fast", ask(request, with_faster_links(request.cluster), best.plan)});
  Cluster less = request.cluster;
  const auto has_limit = [](const Device& device) { return device.memory > 0; };
  const bool limited = std::any_of(less.devices.begin(), less.devices.end(), has_limit);
  const auto half = std::max<int64_t>(1, int64_t(best.prediction.fullest() / 2));
  for (Device& device : less.devices) device.memory = limited ? device.memory / 2 : half;
  answers.push_back({limited ? "devices had half the memory" : fmt::format("devices had {}, half of what this plan needs", format_bytes(half)),
                     ask(request, less, best.plan)});
  for (WhatIf& answer : answers) answer.answer.shortfall.reset();
  return answers;
}

}  // namespace trireme
