// The communication inside layer calls, as part of an instruction's cost.
#include <algorithm>

#include "cost/call_shapes.h"
#include "cost/instruction_costs.h"

namespace trireme {

LayerExchanges InstructionCosts::communication_of(const Op& op, int64_t share) const {
  const Layer& layer = *model_.node(op.node).layer;
  CallInputs inputs{.shapes = model_.input_shapes(op.node), .elements = {}, .wanted = {}};
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.elements.push_back(int64_t(element_size(model_.node(op.node).inputs[i], false)));
    inputs.wanted.push_back(program_.values[size_t(op.inputs[i])].needs_gradient);
  }
  CallShapes call = call_shapes(layer, inputs, op.option, op.mesh.tensor, share, options_.precision);
  if (layer.communicates_over_data_axis(options_.batch_norm)) call.data = op.mesh.data;
  return exchanges_of(call);
}

/// True on the rank that charges its group's demand on shared links: the first representative in the group.
bool InstructionCosts::charges_for(int rank, std::span<const int> group) const {
  const std::vector<int>& chosen = options_.representatives;
  if (chosen.empty()) return rank == group.front();
  const auto first = std::find_if(group.begin(), group.end(),
                                  [&](int r) { return std::binary_search(chosen.begin(), chosen.end(), r); });
  return first != group.end() && *first == rank;
}

/// This rank's part of the demand of one exchange of its group.
Demand InstructionCosts::demand_of(int rank, const Op& op, const Exchange& exchange, std::span<const int> group) const {
  const auto place = size_t(std::find(group.begin(), group.end(), rank) - group.begin());
  const int cores = links_.cores_of(rank);
  if (exchange.kind == RedistributionKind::send_receive) {
    const double borders = double(place > 0) + double(place + 1 < group.size());
    const int own[] = {rank};
    Demand demand = links_.message(rank, group[place > 0 ? place - 1 : place + 1], exchange.bytes * borders / 2,
                                   alike(own, op.mesh.workers));
    demand.fixed += links_.hand_over();
    return seen_by_representatives(std::move(demand));
  }
  Demand demand = links_.collective(exchange.kind, exchange.bytes, group, alike(group, op.mesh.workers));
  if (cores >= 0 && !demand.shares.empty() && demand.shares.front().pool == cores)
    demand.shares = {demand.shares.at(place)};
  else if (cores < 0 && !charges_for(rank, group)) demand.shares.clear();
  return seen_by_representatives(std::move(demand));
}

/// Returns the seconds for which one exchange of its group occupies this rank's core, if processes send the bytes;
/// otherwise 0.
double InstructionCosts::work_of(int rank, const Exchange& exchange, std::span<const int> group) const {
  if (exchange.kind != RedistributionKind::send_receive) {
    const auto place = size_t(std::find(group.begin(), group.end(), rank) - group.begin());
    const std::vector<Share> work = links_.work_of_redistribution(exchange.kind, exchange.bytes, group);
    return work.empty() ? 0 : work.at(place).amount;
  }
  const auto place = size_t(std::find(group.begin(), group.end(), rank) - group.begin());
  double seconds = 0;
  for (const size_t other : {place - 1, place + 1}) {  // the rank sends as many bytes to a neighbour as it receives
    if (other >= group.size()) continue;
    const int ends[] = {rank, group[other]};
    const std::vector<Share> work = links_.work_beside(exchange.kind, exchange.bytes / 2, ends);
    if (!work.empty()) seconds += 2 * work.front().amount;
  }
  return seconds;
}

/// Adds one exchange to `cost`, and adds to `seconds` the time for which this rank's core moves tensors. On described
/// devices an exchange is an operator with a launch cost, and its demand of links begins after the segment has
/// computed. A worker on shared cores has its own links: a thread computes nothing while they carry its bytes, the core
/// of a process works on the transfer meanwhile.
void InstructionCosts::add_communication(int rank, const Op& op, const Exchange& exchange, InstructionCost& cost,
                                         double& seconds) const {
  const std::vector<int> group = exchange.over_data ? op.mesh.data_group(rank) : op.mesh.tensor_group(rank);
  if (group.size() < 2 || exchange.times <= 0) return;
  const Demand demand = demand_of(rank, op, exchange, group);
  const int cores = links_.cores_of(rank), kind = cluster_.devices[size_t(rank)].kind;
  double launch = 0;
  if (kind >= 0 && !cluster_.kinds.empty()) {
    const DeviceKind& device = cluster_.kinds[size_t(kind)];
    launch = device.start.value_or(device.launch);
  }
  double on_links = 0;
  for (Share share : demand.shares) {
    share.amount *= exchange.times;
    if (share.pool == cores) seconds += share.amount;
    else if (cores >= 0) on_links = std::max(on_links, share.amount / links_.pools()[size_t(share.pool)].capacity);
    else cost.demand.shares.push_back(share);
  }
  const double work = cores >= 0 ? exchange.times * work_of(rank, exchange, group) : 0;
  seconds += work;
  cost.demand.fixed += exchange.times * (launch + demand.fixed) + std::max(0.0, on_links - work);
  const double part = exchange.kind == RedistributionKind::send_receive ? 1 : 1 - 1 / double(group.size());
  cost.bytes_sent += exchange.times * exchange.bytes * part * (exchange.kind == RedistributionKind::all_reduce ? 2 : 1);
}

}  // namespace trireme
