// In which orders a plan may take the devices of a cluster, where they are not all alike: a planner puts stages on
// devices that follow each other and leaves out the last ones, so that the order decides what is used and who is beside
// whom.
#pragma once

#include <vector>

#include "trireme/cluster.h"

namespace trireme {

/// Orders of `count` devices of the cluster, by number; the first is the file's. Then the devices of one sort after
/// those of another (a sort: kind, memory, link and price of the node), node by node: in every order of the sorts where
/// there are up to three, else the quickest, the roomiest and the cheapest for their speed first. Orders that no plan
/// could tell apart are there once: one for a cluster of equal nodes. `count` is at most the cluster's size.
std::vector<std::vector<int>> device_orders(const Cluster& cluster, int count);

}  // namespace trireme
