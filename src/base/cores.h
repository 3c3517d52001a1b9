// The cores that this process may use, and their division among processes of one machine.
#pragma once

#include <string>
#include <vector>

namespace trireme {

/// Returns the numbers of the cores (hardware threads) in this process's affinity mask, in ascending order.
std::vector<int> usable_cores();

/// Returns the usable cores in `parts` shares, as even as possible and never empty. A share consists of neighbours in
/// the machine's tree of packages, NUMA nodes, caches and cores (hwloc's distribution). With fewer cores than parts,
/// some shares are equal.
std::vector<std::vector<int>> core_shares(int parts);

/// "0-3,8"
std::string describe_cores(const std::vector<int>& cores);

/// Binds this process and its later child processes to these cores. Returns false if the system refuses.
/// Async-signal-safe. Core numbers of 1024 and above are ignored.
bool bind_to_cores(const std::vector<int>& cores);

}  // namespace trireme
