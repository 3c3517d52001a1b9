// The cores that this process may use, and their division among processes of one machine.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Numbers of the cores (hardware threads) in this process' affinity, ascending.
std::vector<int> usable_cores();

/// The usable cores in `parts` shares of neighbours in the machine's tree of packages, NUMA nodes, caches and cores
/// (hwloc's distribution): as even as they can be; where there are fewer cores than parts some shares are the same.
/// None is empty.
std::vector<std::vector<int>> core_shares(int parts);

/// "0-3,8"
std::string describe_cores(const std::vector<int>& cores);

/// Keeps this process, and what it starts, to these cores. False where the system refuses. Async-signal-safe for up to
/// 1024 cores.
bool bind_to_cores(const std::vector<int>& cores);

}  // namespace trireme
