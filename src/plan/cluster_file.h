// Clusters that are described by a file (*.cluster.toml, docs/clusters.md). The machines need not exist here.
#pragma once

#include <filesystem>

#include "trireme/cluster.h"

namespace trireme {

/// Returns `count` numbers: first, first + 1, ...
std::vector<int> device_numbers(int first, int count);

/// Returns a cluster of these devices, in this order, and of the nodes that hold them. Nodes are renumbered in order of
/// first use. No device may be listed twice. The devices of a node need not be adjacent. Errors (user): a device number
/// that the cluster does not have.
Cluster chosen_devices(const Cluster& cluster, const std::vector<int>& devices);

/// Returns a cluster of the first `count` devices and the nodes that hold them. Errors (user): the cluster has fewer
/// devices.
Cluster first_devices(const Cluster& cluster, int count);

}  // namespace trireme
