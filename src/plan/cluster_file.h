// Clusters that are described by a file (*.cluster.toml, docs/clusters.md). The machines need not exist here.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cluster.h"

namespace trireme {

/// As read_cluster, of a text that stands for the file at `path`: messages name it, and prices are beside it.
Cluster read_cluster_text(std::string_view text, const std::filesystem::path& path);

/// Returns `count` numbers: first, first + 1, ...
std::vector<int> device_numbers(int first, int count);

/// Returns the number of devices of each node; 0 if nodes differ.
int devices_per_node(const Cluster& cluster);

/// Returns a cluster of these devices, in this order, and of the nodes that hold them. Nodes are renumbered in order of
/// first use. No device may be listed twice. The devices of a node need not be adjacent. Errors (user): a device number
/// that the cluster does not have.
Cluster chosen_devices(const Cluster& cluster, const std::vector<int>& devices);

/// Returns the cluster with Device::speed at this precision ("bf16"). A file's devices have it at the first precision
/// that their kinds have in common. If a kind does not have this one, speeds stay as they are.
Cluster at_precision(Cluster cluster, const std::string& precision);

/// Returns a cluster of the first `count` devices and the nodes that hold them. Errors (user): the cluster has fewer
/// devices.
Cluster first_devices(const Cluster& cluster, int count);

}  // namespace trireme
