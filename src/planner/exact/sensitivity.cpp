#include "planner/exact/sensitivity.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "planner/exact/least_memory.h"
#include "trireme/error.h"

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

/// Starts with the known plan: if it still fits, the answer is not worse.
PlanAnswer ask(const PlanRequest& request, const Cluster& cluster, const PlanAnswer& known) {
  PlanRequest changed = with_cluster(request, cluster);
  changed.known.push_back(known.best->plan);
  return search_plan(changed);
}

/// With devices that have less memory. A lower bound over all plans also holds for the plans that fit.
PlanAnswer ask_tighter(const PlanRequest& request, const Cluster& cluster, const PlanAnswer& known) {
  const PlanRequest changed = with_cluster(request, cluster);
  const ModelFacts facts(changed);
  const StepModel formula(facts);
  const Plan& plan = known.best->plan;
  if (!formula.unknown(plan)) {
    PlanAnswer same = known;
    same.best->prediction = formula.predict(plan);
    if (same.best->prediction.fits()) return same;
  }
  PlanAnswer answer = ask(request, cluster, known);
  if (answer.best)
    answer.lower_bound = std::max(answer.lower_bound, std::min(known.lower_bound, answer.best->objective));
  return answer;
}

WhatIf with_half_the_memory(const PlanRequest& request, const PlanAnswer& known) {
  Cluster less = request.cluster;
  const auto has_limit = [](const Device& device) { return device.memory > 0; };
  const bool limited = std::any_of(less.devices.begin(), less.devices.end(), has_limit);
  const auto half = std::max<int64_t>(1, int64_t(known.best->prediction.fullest() / 2));
  for (Device& device : less.devices)
    device.memory = limited ? std::max<int64_t>(1, device.memory / 2) * int64_t(has_limit(device)) : half;
  return {limited ? "devices had half the memory"
                  : fmt::format("devices had {}, half of what this plan needs", format_bytes(half)),
          ask_tighter(request, less, known), true};
}

}  // namespace

std::vector<WhatIf> what_if(const PlanRequest& request, const PlanAnswer& known) {
  check_internal(known.best.has_value(), "a plan is known");
  std::vector<WhatIf> answers;
  if (request.objective != Objective::memory)
    answers.push_back({"links were twice as fast", ask(request, with_faster_links(request.cluster), known)});
  answers.push_back(with_half_the_memory(request, known));
  for (WhatIf& answer : answers) answer.answer.shortfall.reset();
  return answers;
}

}  // namespace trireme
