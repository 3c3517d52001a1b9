#include "plan/device_orders.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/cluster_file.h"

namespace trireme {
namespace {

using Orders = std::vector<std::vector<int>>;

/// A cluster with these kinds of devices, per node.
Cluster cluster_of(const std::vector<std::vector<int>>& nodes) {
  Cluster cluster;
  for (const std::vector<int>& kinds : nodes) {
    for (int kind : kinds)
      cluster.devices.push_back(
          {.memory = 1 << 20, .speed = 1.0 / (1 + kind), .kind = kind, .node = int(cluster.nodes.size())});
    cluster.nodes.push_back({.link = {.bandwidth = 1e9, .latency = 1e-6}, .price_per_hour = 1});
  }
  return cluster;
}

TEST(DeviceOrders, EqualDevicesHaveOne) {
  EXPECT_EQ(device_orders(cluster_of({{0, 0}, {0, 0}}), 3), (Orders{{0, 1, 2}}));
  EXPECT_EQ(device_orders(Cluster::uniform(4), 4), (Orders{{0, 1, 2, 3}}));
}

TEST(DeviceOrders, SortsAfterEachOtherEachWay) {
  // Two nodes with two GPUs and a CPU each, one node with a CPU.
  const Cluster cluster = cluster_of({{0, 0, 1}, {0, 0, 1}, {1}});
  EXPECT_EQ(device_orders(cluster, 7), (Orders{{0, 1, 2, 3, 4, 5, 6}, {0, 1, 3, 4, 2, 5, 6}, {2, 5, 6, 0, 1, 3, 4}}));
  // For two devices the file's order is that with GPUs first.
  EXPECT_EQ(device_orders(cluster, 2), (Orders{{0, 1}, {2, 5}}));
}

TEST(DeviceOrders, NodesOfAnotherPriceAreOfAnotherSort) {
  Cluster cluster = cluster_of({{0}, {0}, {0}});
  cluster.nodes[2].price_per_hour = 0.5;
  EXPECT_EQ(device_orders(cluster, 1), (Orders{{0}, {2}}));
  EXPECT_EQ(device_orders(cluster, 2), (Orders{{0, 1}, {2, 0}}));
}

TEST(DeviceOrders, ManyKindsOfDevicesAreChosenByMemorySpeedAndPrice) {
  Cluster cluster = cluster_of({{3}, {2}, {1}, {0}, {4}});
  cluster.devices[0].memory = 1 << 30;     // the most memory
  cluster.nodes[1].price_per_hour = 0.01;  // the cheapest for its speed
  const Orders orders = device_orders(cluster, 2);
  EXPECT_EQ(orders, (Orders{{0, 1}, {3, 2}, {1, 3}}))
      << "the file's, which are also the roomiest, the fastest, the cheapest";
}

TEST(DeviceOrders, AreOrdersOfTheClustersDevices) {
  const Cluster cluster = cluster_of({{0, 1, 2}, {2, 1}, {0}, {1, 1, 0, 2}});
  for (int count = 1; count <= cluster.size(); ++count) {
    const Orders orders = device_orders(cluster, count);
    EXPECT_LE(orders.size(), 7u);  // the file's order and six more
    for (const std::vector<int>& order : orders) {
      EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), size_t(count));
      EXPECT_EQ(chosen_devices(cluster, order).size(), count);
    }
  }
}

}  // namespace
}  // namespace trireme
