#include "planner/graph_files/max_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/infinity.h"
#include "base/units.h"
#include "planner/graph_files/bound_ladder.h"
#include "planner/graph_files/max_load_search.h"
#include "trireme/error.h"

namespace trireme {
namespace {

bool memory_may_run_out(const PlacementProblem& problem) {
  double bytes = 0;
  for (const PlacementNode& node : problem.nodes) bytes += node.bytes;
  return bytes > problem.memory;
}

/// A lower bound: the devices share the work, and each class is on some device.
double simple_bound(const ColorGraph& graph, const DeviceLimits& limits) {
  double work = 0, slowest = 0, cpu_share = 0;
  for (const ColorClass& c : graph.classes) {
    const bool on_accelerator = limits.accelerators > 0 && c.on_accelerator && c.bytes <= limits.memory;
    slowest =
        std::max(slowest, std::min(on_accelerator ? c.accelerator : kInfinity, limits.cpus > 0 ? c.cpu : kInfinity));
    work += c.accelerator;
    if (c.accelerator > 0) cpu_share = std::max(cpu_share, c.cpu > 0 ? c.accelerator / c.cpu : kInfinity);
  }
  const double speed = limits.accelerators + (limits.cpus > 0 ? limits.cpus * cpu_share : 0);
  return speed > 0 ? std::max(slowest, work / speed) : slowest;
}

double largest_load(const std::vector<DevicePart>& parts) {
  double largest = 0;
  for (const DevicePart& part : parts) largest = std::max(largest, part.load);
  return largest;
}

struct Found {
  std::vector<DevicePart> parts;  ///< empty: no placement fits
  size_t states = 0;
  double lower_bound = 0;
  bool exact = false;
};

Found search(const ColorGraph& graph, const DeviceLimits& limits, const Deadline& deadline) {
  const auto orders = some_topological_orders(graph.order);
  const OrderIdeals few = OrderIdeals::along(graph.order, orders);
  Found found;
  bool complete = true;
  found.parts = MaxLoadSearch(few, graph, limits).run(kInfinity, Deadline(std::nullopt), complete);
  const double upper = found.parts.empty() ? kInfinity : largest_load(found.parts);
  found.lower_bound = std::min(upper, simple_bound(graph, limits));
  const std::optional<OrderIdeals> all = OrderIdeals::all(graph.order);
  if (!all) return found;
  found.states = all->size();
  MaxLoadSearch exact(*all, graph, limits);
  BoundLadder ladder(found.lower_bound, upper);
  do {
    std::vector<DevicePart> better = exact.run(ladder.bound(), deadline, complete);
    found.exact = complete;
    if (better.empty()) continue;
    found.parts = std::move(better);
    found.lower_bound = largest_load(found.parts);
    return found;
  } while (complete && ladder.raise());
  found.lower_bound = ladder.proven();
  return found;
}

/// The least memory per accelerator with which all classes can be placed.
double least_memory(ColorGraph graph, DeviceLimits limits) {
  for (ColorClass& c : graph.classes) c.accelerator = c.bytes;
  graph.outputs.clear();
  graph.owned.assign(graph.classes.size(), {});
  graph.read.assign(graph.classes.size(), {});
  limits.memory = kInfinity;
  const Found found = search(graph, limits, Deadline(std::nullopt));
  return largest_load(found.parts);
}

}  // namespace

void check_placeable(const PlacementProblem& problem, const std::string& where) {
  if (problem.cpus > 0) return;  // a CPU has no memory limit
  if (problem.accelerators == 0)
    fail_user({where, "no devices", "maxFPGAs and maxCPUs are both 0", "allow at least one device"});
  for (const PlacementNode& node : problem.nodes)
    if (!node.on_accelerator)
      fail_user({where, node.name, "can run on a CPU only, and maxCPUs is 0", "set maxCPUs to 1 or more"});
  if (!memory_may_run_out(problem)) return;
  const double least = least_memory(color_graph(problem, true), {problem.accelerators, 0, problem.memory});
  if (least <= problem.memory) return;
  const double missing = least - problem.memory;
  fail_user({where,
             fmt::format("does not fit into {} x {}", problem.accelerators, format_bytes(std::llround(problem.memory))),
             fmt::format("{:.0f} bytes ({}) are missing per device", missing, format_bytes(std::llround(missing))),
             fmt::format("give each at least {:.0f} bytes, or use more devices", least)});
}

GraphPlan plan_max_load(const PlacementProblem& problem, const std::string& where, const Deadline& deadline) {
  check_placeable(problem, where);
  const DeviceLimits limits{problem.accelerators, problem.cpus, problem.memory};
  const ColorGraph graph = color_graph(problem, memory_may_run_out(problem));
  const Found found = search(graph, limits, deadline);
  if (found.parts.empty())
    fail_user({where, "", "no placement that fits was found before the search ended",
               "give it more time, devices or memory"});
  GraphPlan plan;
  plan.objective = largest_load(found.parts);
  plan.states = found.states;
  plan.lower_bound = found.lower_bound;
  plan.proof = proof_in_words(found.states, found.exact);
  for (const DevicePart& part : found.parts) {
    GraphStage stage;
    stage.device = part.on_cpu ? "cpu" : "accelerator";
    stage.compute = part.compute;
    stage.load = part.load;
    for (int klass : part.classes) {
      const auto& nodes = graph.classes[size_t(klass)].nodes;
      stage.nodes.insert(stage.nodes.end(), nodes.begin(), nodes.end());
    }
    std::sort(stage.nodes.begin(), stage.nodes.end());
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

}  // namespace trireme
