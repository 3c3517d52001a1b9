// Orders in which a plan may use the devices of a mixed cluster. A planner places stages on consecutive devices and
// leaves out the last devices, so the order decides which devices are used and which are neighbours.
#pragma once

#include <vector>

#include "trireme/cluster.h"

namespace trireme {

/// Returns orders of `count` devices of the cluster, by device number. The first order is the file's. In the others,
/// devices are grouped by class (same kind, speed, memory, node link and node price), node by node. With up to three
/// classes, all orders of the classes are returned; with more, three: fastest first, largest memory first, cheapest for
/// its speed first. Orders that no plan can tell apart are returned once, so a cluster of equal nodes has one order.
/// `count` is at most the cluster's size.
std::vector<std::vector<int>> device_orders(const Cluster& cluster, int count);

}  // namespace trireme
