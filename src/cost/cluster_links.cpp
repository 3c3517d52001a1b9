#include "cost/cluster_links.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

namespace trireme {
namespace {

/// Capacity, in bytes/s, of a link without a bandwidth limit.
constexpr double kUnlimited = 1e18;

/// Share of a ring's bandwidth that NCCL expects of its trees.
constexpr double kTreeEfficiency = 0.92;

/// Rounds of messages (by ring, by halving and doubling), and bytes that leave each of n members in units of the
/// tensor's size.
struct Ring {
  double rounds = 0, doubling_rounds = 0, bytes = 0;
};

Ring ring_of(RedistributionKind kind, int n) {
  const double part = double(n - 1) / n, log = std::ceil(std::log2(double(n)));
  switch (kind) {
    case RedistributionKind::all_reduce: return {2.0 * (n - 1), 2 * log, 2 * part};
    case RedistributionKind::all_gather:
    case RedistributionKind::reduce_scatter: return {double(n - 1), log, part};
    case RedistributionKind::all_to_all: return {double(n - 1), double(n - 1), part};
    case RedistributionKind::send_receive: return {1, 1, 1};
    case RedistributionKind::none:
    case RedistributionKind::slice: break;
  }
  return {};
}

}  // namespace

ClusterLinks::ClusterLinks(const Cluster& cluster, const CollectiveLibrary& library)
    : cluster_(cluster), library_(library) {
  const auto add = [&](const Link& link) {
    pools_.push_back(
        {Pool::Kind::link, (link.bandwidth > 0 ? link.bandwidth : kUnlimited) / cluster_.transfer_slowdown});
    return int(pools_.size()) - 1;
  };
  std::map<int, int> shared;   // node: pool
  std::map<int, int> devices;  // node: number
  for (const Device& device : cluster_.devices) {
    place_.push_back(devices[device.node]++);
    const Link& link = cluster_.nodes.at(size_t(device.node)).link;
    if (!link.shared) egress_.push_back(add(link));
    else {
      if (!shared.count(device.node)) shared[device.node] = add(link);
      egress_.push_back(shared[device.node]);
    }
  }
  for (size_t n = 0; n < cluster_.nodes.size(); ++n) {
    Link adapter = cluster_.network;
    adapter.bandwidth /= cluster_.fabric.rails;
    for (int rail = 0; rail < cluster_.fabric.rails; ++rail) {
      network_out_.push_back(add(adapter));
      network_in_.push_back(add(adapter));
    }
    if (library.connection > 0) connection_.push_back(add({.bandwidth = library.connection}));
  }
}

size_t ClusterLinks::adapter_of(int device) const {
  const int rails = cluster_.fabric.rails;
  return size_t(node_of(device)) * size_t(rails) + size_t(place_[size_t(device)] % rails);
}

int ClusterLinks::switch_of(int node) const {
  const int each = cluster_.fabric.nodes_per_switch;
  return each > 0 ? node / each : 0;
}

/// Returns the factor on the time of bytes that `node` sends to the next of `nodes` in a ring. It is above 1 if they
/// cross an oversubscribed connection between switches.
double ClusterLinks::uplink_factor(int node, const std::vector<int>& nodes) const {
  if (cluster_.fabric.oversubscription <= 1) return 1;
  const auto beside = std::count_if(nodes.begin(), nodes.end(), [&](int n) { return switch_of(n) == switch_of(node); });
  if (size_t(beside) == nodes.size()) return 1;
  return std::max(1.0, cluster_.fabric.oversubscription / double(beside));
}

/// Adds to `demand` that the node of these members sends `bytes` and receives as many, through the members' adapters.
/// `alike`: the number of such groups on the node.
void ClusterLinks::add_network(const std::vector<int>& members, double bytes, int alike, Demand& demand) const {
  std::map<size_t, int> devices;  // adapter: members
  for (int rank : members) ++devices[adapter_of(rank)];
  for (const auto& [adapter, count] : devices) {
    // Such groups use different adapters as long as there are any.
    const double groups = std::max(1.0, double(alike * int(members.size())) / cluster_.fabric.rails / count);
    const double amount = bytes * count / double(members.size()) * groups;
    const int users = std::max(1, int(std::lround(groups)));
    demand.shares.push_back({network_out_[adapter], amount, 1, users});
    demand.shares.push_back({network_in_[adapter], amount, 1, users});
  }
}

/// Each node's bytes leave and enter it once. `leaving`: bytes out of a node with this number of members. `inside`:
/// bytes out of each member, where a node has several.
Demand ClusterLinks::over_nodes(double fixed, const std::function<double(size_t)>& leaving, double inside,
                                const MembersByNode& by_node, int alike) const {
  Demand demand{fixed, {}};
  std::vector<int> nodes;
  for (const auto& [node, members] : by_node) nodes.push_back(node);
  for (const auto& [node, members] : by_node) {
    const double out = leaving(members.size());
    add_network(members, out * uplink_factor(node, nodes), alike, demand);
    if (!connection_.empty()) demand.shares.push_back({connection_[size_t(node)], out * alike, 1, alike});
    for (int rank : members)
      if (members.size() > 1) demand.shares.push_back({egress_of(rank), inside});
  }
  return demand;
}

/// Seconds of a demand that has its links to itself.
double ClusterLinks::seconds_of(const Demand& demand) const {
  double longest = 0;
  for (const Share& share : demand.shares)
    longest = std::max(longest, share.amount / pools_[size_t(share.pool)].capacity);
  return demand.fixed + longest;
}

/// The demand of an NCCL collective over several nodes. `near`: latency in seconds of a link inside a node.
Demand ClusterLinks::nccl(RedistributionKind kind, double bytes, int n, double near, const MembersByNode& by_node,
                          int alike) const {
  const int nodes = int(by_node.size());
  const Ring ring = ring_of(kind, n);
  const bool sums_all = kind == RedistributionKind::all_reduce;
  const double between = std::min(ring.rounds, double(sums_all ? 2 * nodes : nodes));
  const double latency = (ring.rounds - between) * near + between * cluster_.network.latency;
  const auto of_all = [](double sent) { return [sent](size_t) { return sent; }; };
  Demand by_ring = over_nodes(latency, of_all(ring.bytes * bytes), ring.bytes * bytes, by_node, alike);
  if (!sums_all) return by_ring;
  const double inside = double(n) / nodes, depth = std::ceil(std::log2(double(nodes)));
  const double tree_bytes = 2 * bytes / kTreeEfficiency;
  Demand by_tree = over_nodes(2 * (std::max(0.0, inside - 1) * near + depth * cluster_.network.latency),
                              of_all(tree_bytes), tree_bytes, by_node, alike);
  return seconds_of(by_tree) < seconds_of(by_ring) ? by_tree : by_ring;
}

Demand ClusterLinks::collective(RedistributionKind kind, double bytes, std::span<const int> ranks, int alike) const {
  const int n = int(ranks.size());
  if (n < 2) return {};
  MembersByNode by_node;
  for (int rank : ranks) by_node[node_of(rank)].push_back(rank);
  const int nodes = int(by_node.size());
  const Link& link = cluster_.nodes[size_t(by_node.begin()->first)].link;
  const bool is_nccl = cluster_.collectives == Collectives::nccl && kind != RedistributionKind::all_to_all;
  const Ring ring = ring_of(kind, n);
  const auto rounds_of = [&](const Ring& r) {
    return library_.flat_rings || is_nccl ? r.rounds : std::min(r.rounds, r.doubling_rounds);
  };
  if (nodes == 1) {
    Demand demand{rounds_of(ring) * link.latency, {}};
    const int together = link.shared ? alike : 1;
    for (int rank : ranks) demand.shares.push_back({egress_of(rank), ring.bytes * bytes * together, 1, together});
    return demand;
  }
  if (is_nccl) return nccl(kind, bytes, n, link.latency, by_node, alike);

  // One ring through all members. It enters and leaves each node once, and each round waits for the slowest link.
  const double flat_latency = rounds_of(ring) * cluster_.network.latency;
  // The same in two levels.
  const int inside = n / nodes;
  const Ring within =
      ring_of(kind == RedistributionKind::all_to_all ? RedistributionKind::send_receive : kind, std::max(inside, 1));
  const Ring across = ring_of(kind, nodes);
  const double two_latency = rounds_of(within) * link.latency + rounds_of(across) * cluster_.network.latency;
  const bool may_have_two =
      !library_.flat_rings && inside > 1 && inside * nodes == n && kind != RedistributionKind::all_to_all;
  const bool two_levels = may_have_two && two_latency < flat_latency;
  const auto leaving = [&](size_t members) {
    if (kind == RedistributionKind::all_to_all)  // all bytes for members on other nodes leave the node
      return bytes * double(members) * double(n - int(members)) / n;
    return (two_levels ? across : ring).bytes * bytes;
  };
  return over_nodes(two_levels ? two_latency : flat_latency, leaving, (two_levels ? within : ring).bytes * bytes,
                    by_node, alike);
}

Demand ClusterLinks::giving(double bytes, std::span<const int> ranks, int rank, int alike) const {
  if (ranks.size() < 2) return {};
  const Demand whole = collective(RedistributionKind::all_gather, bytes, ranks, 1);
  const int node = node_of(rank);
  const auto members = std::count_if(ranks.begin(), ranks.end(), [&](int r) { return node_of(r) == node; });
  const auto beside =
      std::count_if(ranks.begin(), ranks.end(), [&](int r) { return adapter_of(r) == adapter_of(rank); });
  const int users_of_adapter = std::max(1, int(std::lround(double(alike * beside) / double(members))));
  const bool together = cluster_.nodes[size_t(node)].link.shared;
  Demand own{whole.fixed, {}};
  std::set<int> taken;  // a node's shared link is listed once per member
  for (const Share& share : whole.shares) {
    const bool network = share.pool == network_out(rank) || share.pool == network_in(rank),
               connection = !connection_.empty() && share.pool == connection_[size_t(node)];
    if ((!network && !connection && share.pool != egress_of(rank)) || !taken.insert(share.pool).second) continue;
    const int users = network ? users_of_adapter : connection || together ? alike : 1;
    const auto givers = double(network ? beside : connection ? members : 1);
    own.shares.push_back({share.pool, share.amount / givers * users, 1, users});
  }
  return own;
}

std::vector<int> ClusterLinks::pools_of(int rank) const {
  const int node = node_of(rank);
  std::vector<int> pools{egress_of(rank), network_out(rank), network_in(rank)};
  if (!connection_.empty()) pools.push_back(connection_[size_t(node)]);
  return pools;
}

Demand ClusterLinks::message(int from, int to, double bytes, int alike) const {
  if (from == to) return {};
  const int source = node_of(from), target = node_of(to);
  const Link& link = cluster_.nodes[size_t(source)].link;
  const int together = link.shared ? alike : 1;
  if (source == target) return {link.latency, {{egress_of(from), bytes * together, 1, together}}};
  const Fabric& fabric = cluster_.fabric;
  const int users = std::max(1, int(std::lround(double(alike) / fabric.rails)));
  double times = users;
  if (switch_of(source) != switch_of(target)) {
    const double crossing = std::min(1.0, double(std::abs(target - source)) / fabric.nodes_per_switch);
    times *= std::max(1.0, fabric.oversubscription * crossing);
  }
  return {cluster_.network.latency,
          {{network_out(from), bytes * times, 1, users}, {network_in(to), bytes * times, 1, users}}};
}

}  // namespace trireme
