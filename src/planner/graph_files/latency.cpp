#include "planner/graph_files/latency.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/infinity.h"
#include "planner/graph_files/max_load.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// True if each device may hold its nodes, without regard to order.
bool is_allowed(const PlacementProblem& problem, const DevicePlacement& placement) {
  std::vector<double> bytes(size_t(problem.accelerators) + 1, 0.0);
  std::map<int, int> device_of_color;
  for (size_t v = 0; v < problem.nodes.size(); ++v) {
    const PlacementNode& node = problem.nodes[v];
    const int device = placement[v];
    if (device == kOnCpu ? problem.cpus == 0 : !node.on_accelerator) return false;
    if (node.color && device_of_color.emplace(*node.color, device).first->second != device) return false;
    bytes[size_t(device)] += node.bytes;
  }
  return std::all_of(bytes.begin() + 1, bytes.end(), [&](double b) { return b <= problem.memory; });
}

/// By accelerator: the time of its part, work and communication. Each output counts once.
std::vector<double> accelerator_loads(const PlacementProblem& problem, const DevicePlacement& placement) {
  std::vector<double> load(size_t(problem.accelerators) + 1, 0.0);
  std::vector<int> readers;  // devices other than the node's own
  for (size_t v = 0; v < problem.nodes.size(); ++v) {
    const PlacementNode& node = problem.nodes[v];
    if (placement[v] != kOnCpu) load[size_t(placement[v])] += node.accelerator;
    readers.clear();
    for (int next : problem.edges.successors[v]) {
      const int device = placement[size_t(next)];
      if (device != placement[v] && std::find(readers.begin(), readers.end(), device) == readers.end())
        readers.push_back(device);
    }
    if (readers.empty()) continue;
    if (placement[v] != kOnCpu) load[size_t(placement[v])] += node.send;
    for (int device : readers)
      if (device != kOnCpu) load[size_t(device)] += node.send;
  }
  return load;
}

/// The least time for the nodes of a path alone. On a path, each accelerator's part is one run of nodes, and parts run
/// one after the other. Where the path enters or leaves a part, the output on that edge must be moved.
double path_bound(const PlacementProblem& problem, const std::vector<int>& path) {
  const size_t count = path.size();
  const auto node = [&](size_t i) -> const PlacementNode& { return problem.nodes[size_t(path[i])]; };
  const size_t most = size_t(std::min<int>(problem.accelerators, int(count)));
  // least[a][i]: time of the first i nodes with at most a accelerators.
  std::vector<std::vector<double>> least(most + 1, std::vector<double>(count + 1, kInfinity));
  for (size_t a = 0; a <= most; ++a) {
    least[a][0] = 0;
    for (size_t end = 1; end <= count; ++end) {
      double& best = least[a][end];
      if (a > 0) best = least[a - 1][end];
      if (problem.cpus > 0) best = std::min(best, least[a][end - 1] + node(end - 1).cpu);
      double work = 0, bytes = 0;
      for (size_t begin = end; a > 0 && begin-- > 0;) {
        if (!node(begin).on_accelerator) break;
        work += node(begin).accelerator;
        bytes += node(begin).bytes;
        if (bytes > problem.memory) break;
        const double moved = (begin > 0 ? node(begin - 1).send : 0) + (end < count ? node(end - 1).send : 0);
        best = std::min(best, least[a - 1][begin] + work + moved);
      }
    }
  }
  return least[most][count];
}

/// The path with the largest sum of weights.
std::vector<int> heaviest_path(const Dag& graph, const std::vector<double>& weight) {
  std::vector<double> best(weight.size());
  std::vector<int> before(weight.size(), -1);
  int end = -1;
  for (int v : topological_order(graph, Order::first_number)) {
    double most = 0;
    for (int p : graph.predecessors[size_t(v)])
      if (before[size_t(v)] < 0 || best[size_t(p)] > most) {
        most = best[size_t(p)];
        before[size_t(v)] = p;
      }
    best[size_t(v)] = most + weight[size_t(v)];
    if (end < 0 || best[size_t(v)] > best[size_t(end)]) end = v;
  }
  std::vector<int> path;
  for (int v = end; v >= 0; v = before[size_t(v)]) path.push_back(v);
  std::reverse(path.begin(), path.end());
  return path;
}

GraphPlan to_plan(const PlacementProblem& problem, const DevicePlacement& placement) {
  GraphPlan plan;
  const std::vector<double> loads = accelerator_loads(problem, placement);
  std::vector<GraphStage> stages(loads.size());
  for (size_t v = 0; v < placement.size(); ++v) {
    const PlacementNode& node = problem.nodes[v];
    GraphStage& stage = stages[size_t(placement[v])];
    stage.nodes.push_back(int(v));
    stage.compute += placement[v] == kOnCpu ? node.cpu : node.accelerator;
  }
  std::rotate(stages.begin(), stages.begin() + 1, stages.end());  // the CPU goes last
  for (size_t i = 0; i < stages.size(); ++i) {
    const bool cpu = i + 1 == stages.size();
    stages[i].device = cpu ? "cpu" : "accelerator";
    stages[i].load = cpu ? stages[i].compute : loads[i + 1];
    if (!stages[i].nodes.empty()) plan.stages.push_back(std::move(stages[i]));
  }
  return plan;
}

}  // namespace

std::optional<double> placement_latency(const PlacementProblem& problem, const DevicePlacement& placement) {
  if (!is_allowed(problem, placement)) return std::nullopt;
  // Visits the parts of accelerators and the nodes of CPUs in an order in which the inputs of each are ready.
  const size_t parts = size_t(problem.accelerators) + 1, count = placement.size();
  const auto unit = [&](size_t v) { return placement[v] == kOnCpu ? parts + v : size_t(placement[v]); };
  std::vector<int> waiting(parts + count, 0);
  std::vector<std::vector<int>> members(parts + count);
  for (size_t v = 0; v < count; ++v) {
    members[unit(v)].push_back(int(v));
    for (int next : problem.edges.successors[v])
      if (unit(size_t(next)) != unit(v)) ++waiting[unit(size_t(next))];
  }
  const std::vector<double> loads = accelerator_loads(problem, placement);
  std::vector<double> start(parts + count, 0.0);
  std::vector<size_t> ready;
  size_t units = 0, done = 0;
  for (size_t u = 0; u < members.size(); ++u) {
    if (members[u].empty()) continue;
    ++units;
    if (waiting[u] == 0) ready.push_back(u);
  }
  double latency = 0;
  while (!ready.empty()) {
    const size_t u = ready.back();
    ready.pop_back();
    ++done;
    const double end = start[u] + (u < parts ? loads[u] : problem.nodes[u - parts].cpu);
    latency = std::max(latency, end);
    for (int v : members[u])
      for (int next : problem.edges.successors[size_t(v)]) {
        const size_t reader = unit(size_t(next));
        if (reader == u) continue;
        start[reader] = std::max(start[reader], end);
        if (--waiting[reader] == 0) ready.push_back(reader);
      }
  }
  // A part that a path leaves and enters again waits for itself.
  if (done < units) return std::nullopt;
  return latency;
}

double latency_bound(const PlacementProblem& problem) {
  const auto weights = [&](auto value) {
    std::vector<double> result;
    for (const PlacementNode& node : problem.nodes) result.push_back(value(node));
    return result;
  };
  double bound = 0;
  for (const std::vector<double>& weight :
       {weights([](const PlacementNode& n) { return n.on_accelerator ? std::min(n.accelerator, n.cpu) : n.cpu; }),
        weights([](const PlacementNode& n) { return n.cpu; }), weights([](const PlacementNode& n) { return n.bytes; }),
        weights([](const PlacementNode&) { return 1.0; })}) {
    bound = std::max(bound, path_bound(problem, heaviest_path(problem.edges, weight)));
  }
  return bound;
}

GraphPlan plan_latency(const PlacementProblem& problem, const std::string& where, const Deadline& deadline) {
  check_placeable(problem, where);
  std::optional<DevicePlacement> best = quick_placement(problem, deadline);
  if (!best) fail_user({where, "", "no placement that fits was found", "add devices, memory or a CPU (maxCPUs)"});
  double objective = *placement_latency(problem, *best);
  double bound = std::min(objective, latency_bound(problem));
  std::string proof = "a lower bound from single paths";
  constexpr double kClosed = 1e-9;  // a relative gap below this is rounding
  if (objective - bound > kClosed * objective && !deadline.passed()) {
    const ProgramResult program = solve_latency_program(problem, *best, deadline);
    if (program.placement) {
      const auto found = placement_latency(problem, *program.placement);
      if (found && *found < objective) {
        best = program.placement;
        objective = *found;
      }
    }
    const double proven = std::min(objective, program.complete ? objective : program.lower_bound);
    if (proven > bound) {
      bound = proven;
      proof = program.complete ? "the integer program, solved" : "the integer program, ended by the time limit";
    }
  }
  GraphPlan plan = to_plan(problem, *best);
  plan.objective = objective;
  plan.lower_bound = std::min(bound, objective);
  plan.proof = proof;
  return plan;
}

}  // namespace trireme
