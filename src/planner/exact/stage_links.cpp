#include "planner/exact/stage_links.h"

#include <algorithm>
#include <map>

namespace trireme {
namespace {

const Device& device(const Cluster& cluster, int i) { return cluster.devices[size_t(i)]; }

double seconds_per_byte(const Link& link) { return link.bandwidth > 0 ? 1 / link.bandwidth : 0; }

void take_worse(LinkCost& cost, double latency, double seconds) {
  cost.latency = std::max(cost.latency, latency);
  cost.seconds_per_byte = std::max(cost.seconds_per_byte, seconds);
}

/// Number of devices of the span per node.
std::map<int, int> devices_by_node(const Cluster& cluster, DeviceSpan span) {
  std::map<int, int> count;
  for (int i = span.first; i < span.first + span.count; ++i) ++count[device(cluster, i).node];
  return count;
}

/// A cluster without nodes (Cluster::uniform) has free links.
void take_node(LinkCost& cost, const Cluster& cluster, int node, int sharers) {
  if (size_t(node) >= cluster.nodes.size()) return;
  const Link& link = cluster.nodes[size_t(node)].link;
  take_worse(cost, link.latency, seconds_per_byte(link) * (link.shared ? sharers : 1));
}

void take_network(LinkCost& cost, const Cluster& cluster, int sharers) {
  // Fewer sharers than adapters use a part of the node's bandwidth.
  take_worse(cost, cluster.network.latency,
             seconds_per_byte(cluster.network) * std::max(sharers, cluster.fabric.rails));
}

LinkCost border_link(const Cluster& cluster, DeviceSpan span, int other) {
  LinkCost cost;
  const int near = other < span.first ? span.first : span.first + span.count - 1;
  const bool crosses =
      other >= 0 && other < cluster.size() && device(cluster, other).node != device(cluster, near).node;
  for (const auto& [node, count] : devices_by_node(cluster, span)) {
    if (crosses) take_network(cost, cluster, count);
    else take_node(cost, cluster, node, count);
  }
  return cost;
}

}  // namespace

double ring_all_reduce_seconds(const LinkCost& link, int ranks, double bytes) {
  return 2 * ring_reduce_scatter_seconds(link, ranks, bytes);
}

double ring_reduce_scatter_seconds(const LinkCost& link, int ranks, double bytes) {
  if (ranks == 1 || bytes == 0) return 0;
  return (ranks - 1) * link.latency + double(ranks - 1) / ranks * bytes * link.seconds_per_byte;
}

LinkCost ring_link(const Cluster& cluster, DeviceSpan span, int stride, int ranks) {
  LinkCost cost;
  if (ranks == 1) return cost;
  const std::map<int, int> here = devices_by_node(cluster, span);
  std::map<int, int> passing;  // number of rings that pass through a node's connection
  const int block = stride * ranks;
  for (int start = span.first; start < span.first + span.count; start += block)
    for (int ring = start; ring < start + stride; ++ring) {
      std::map<int, int> members;
      for (int k = 0; k < ranks; ++k) ++members[device(cluster, ring + k * stride).node];
      for (const auto& [node, count] : members) {
        if (count > 1) take_node(cost, cluster, node, here.at(node));
        if (members.size() > 1) ++passing[node];
      }
    }
  for (const auto& [node, rings] : passing) take_network(cost, cluster, rings);
  return cost;
}

LinkCost exchange_link(const Cluster& cluster, DeviceSpan span, int block) {
  LinkCost cost;
  if (block == 1) return cost;
  const std::map<int, int> here = devices_by_node(cluster, span);
  for (int start = span.first; start < span.first + span.count; start += block) {
    const std::map<int, int> members = devices_by_node(cluster, {start, block});
    for (const auto& [node, count] : members) {
      if (count > 1) take_node(cost, cluster, node, here.at(node));
      if (members.size() > 1) take_network(cost, cluster, here.at(node));
    }
  }
  return cost;
}

LinkCost entry_link(const Cluster& cluster, DeviceSpan span) { return border_link(cluster, span, span.first - 1); }

LinkCost exit_link(const Cluster& cluster, DeviceSpan span) {
  return border_link(cluster, span, span.first + span.count);
}

}  // namespace trireme
