// Clusters that are described by a file (*.cluster.toml, docs/clusters.md). The machines need not exist here.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cluster.h"

namespace trireme {

/// As read_cluster, for a text instead of a file. `path` stands for the file: messages name it, and a price table is
/// searched for in its folder.
Cluster read_cluster_text(std::string_view text, const std::filesystem::path& path);

/// Returns `count` numbers: first, first + 1, ...
std::vector<int> device_numbers(int first, int count);

/// Returns the number of devices of each node; 0 if nodes differ.
int devices_per_node(const Cluster& cluster);

/// Returns a cluster of these devices, in this order, and of the nodes that hold them. Nodes are renumbered in order of
/// first use. No device may be listed twice. The devices of a node need not be adjacent. Errors (user): a device number
/// that the cluster does not have.
Cluster chosen_devices(const Cluster& cluster, const std::vector<int>& devices);

/// Returns the cluster with Device::speed at this precision ("bf16"). (In a cluster as it was read, speeds are those at
/// the first precision that all its kinds have.) If a kind has no speed at this precision, no speed changes.
Cluster at_precision(Cluster cluster, const std::string& precision);

/// Returns a cluster of the first `count` devices and the nodes that hold them. Errors (user): the cluster has fewer
/// devices.
Cluster first_devices(const Cluster& cluster, int count);

}  // namespace trireme
