// Machines that are not there: clusters that a file describes (*.cluster.toml, docs/clusters.md).
#pragma once

#include <filesystem>

#include "trireme/cluster.h"

namespace trireme {

/// first, first + 1, ..., `count` of them.
std::vector<int> device_numbers(int first, int count);

/// These devices in this order, each once, and the nodes that they stand in, numbered anew as they come. A node may
/// come more than once. Errors: user error where there is none of that number.
Cluster chosen_devices(const Cluster& cluster, const std::vector<int>& devices);

/// The first `count` devices and the nodes that they stand in. Errors: user error where there are fewer.
Cluster first_devices(const Cluster& cluster, int count);

}  // namespace trireme
