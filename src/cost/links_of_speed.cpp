#include "cost/links_of_speed.h"

namespace trireme {
namespace {

Cluster cluster_of(int workers, double bandwidth, double latency) {
  Cluster cluster = Cluster::uniform(workers);
  cluster.nodes = {
      ClusterNode{.link = {.bandwidth = bandwidth, .latency = latency}, .price_per_hour = 0, .instance = ""}};
  cluster.overlap = Overlap::sums;
  return cluster;
}

}  // namespace

LinksOfSpeed::LinksOfSpeed(int workers, int cores, double bandwidth, double latency)
    : connections_(cluster_of(workers, bandwidth, latency)), pools_(connections_.pools()) {
  pools_.push_back({Pool::Kind::cores, double(cores)});
}

}  // namespace trireme
