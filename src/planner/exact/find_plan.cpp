#include "planner/exact/find_plan.h"

#include <algorithm>
#include <iterator>

#include "base/infinity.h"
#include "base/seconds.h"
#include "planner/exact/least_memory.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kNoPriceNext =
    "in the cluster file, set price_per_hour for each node, price.date and price.source; for this machine, set "
    "price.per_hour in the experiment";

/// Sorts the runners-up by money, including those that were best for a while.
void sort_by_money(PlanAnswer& answer) {
  for (RatedPlan& plan : answer.runners_up) plan.objective = plan.prediction.money;
  std::stable_sort(answer.runners_up.begin(), answer.runners_up.end(),
                   [](const RatedPlan& a, const RatedPlan& b) { return a.objective < b.objective; });
  if (answer.runners_up.size() > kRunnersUp) answer.runners_up.resize(kRunnersUp);
}

/// The plan of least money: for each number of nodes, the fastest plan on them.
PlanAnswer find_cheapest(const PlanRequest& request) {
  const Deadline deadline(request.time_limit);
  const auto has_price = [](const ClusterNode& node) { return node.price_per_hour > 0; };
  if (request.cluster.nodes.empty() ||
      !std::all_of(request.cluster.nodes.begin(), request.cluster.nodes.end(), has_price))
    fail_user({"--objective cost", request.cluster.name, "the price of at least one node is not known", kNoPriceNext});
  PlanAnswer best;
  double lower = kInfinity;
  for (int devices = 1; devices <= request.cluster.size(); ++devices) {
    const auto& all = request.cluster.devices;
    if (devices < request.cluster.size() && all[size_t(devices)].node == all[size_t(devices) - 1].node) continue;
    Cluster nodes = request.cluster;
    nodes.devices.resize(size_t(devices));
    const double price = price_per_hour(nodes, devices) / kSecondsPerHour;
    PlanAnswer answer = find_fastest(within(with_cluster(request, nodes), deadline),
                                     best.best ? best.best->objective / price : kInfinity);
    lower = std::min(lower, answer.lower_bound * price);
    if (answer.best) std::swap(answer, best);
    if (best.best) best.best->objective = best.best->prediction.money;
    best.configurations += answer.configurations;
    best.searched_configurations += answer.searched_configurations;
    if (answer.best) best.runners_up.push_back(std::move(*answer.best));
    std::move(answer.runners_up.begin(), answer.runners_up.end(), std::back_inserter(best.runners_up));
    sort_by_money(best);
  }
  best.lower_bound = std::min(lower, best.best ? best.best->objective : kInfinity);
  add_proof(best, request, deadline, "there are too many ways to divide a stage; the most expensive ones were dropped");
  return best;
}

}  // namespace

PlanAnswer search_plan(const PlanRequest& request) {
  if (request.objective == Objective::memory) return find_smallest(request);
  return request.objective == Objective::cost ? find_cheapest(request) : find_fastest(request);
}

PlanAnswer find_plan(const PlanRequest& request) {
  PlanAnswer answer = search_plan(request);
  const bool none_fits = !answer.best && answer.lower_bound == kInfinity;
  if (none_fits) answer.shortfall = explain_shortfall(request);
  return answer;
}

}  // namespace trireme
