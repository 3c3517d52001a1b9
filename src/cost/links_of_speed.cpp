#include "cost/links_of_speed.h"

namespace trireme {
namespace {

Cluster cluster_of(int workers, double bandwidth, double latency) {
  Cluster cluster = Cluster::uniform(workers);
  cluster.nodes = {
      ClusterNode{.link = {.bandwidth = bandwidth, .latency = latency}, .price_per_hour = 0, .instance = ""}};
  return cluster;
}

Cluster with_overlap(Cluster cluster) {
  cluster.overlap = Overlap::sums;
  return cluster;
}

}  // namespace

LinksOfSpeed::LinksOfSpeed(int workers, int cores, double bandwidth, double latency)
    : LinksOfSpeed(cluster_of(workers, bandwidth, latency), {cores}) {}

LinksOfSpeed::LinksOfSpeed(const Cluster& machines, const std::vector<int>& cores)
    : connections_(with_overlap(machines)), pools_(connections_.pools()) {
  for (const Device& device : machines.devices) cores_.push_back(int(pools_.size()) + device.node);
  for (const int of_node : cores) pools_.push_back({Pool::Kind::cores, double(of_node)});
}

}  // namespace trireme
