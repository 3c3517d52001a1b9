// Machines that are not there: clusters that a file describes (*.cluster.toml, docs/clusters.md).
#pragma once

#include <filesystem>

#include "plan/cluster.h"

namespace trireme {

/// Devices are numbered node by node, in the order of the file. Errors: user errors with file, line, key, value, reason and
/// what to do.
Cluster read_cluster(const std::filesystem::path& path);

/// The first `count` devices and the nodes that they stand in. Errors: user error where there are fewer.
Cluster first_devices(const Cluster& cluster, int count);

}  // namespace trireme
