// Limits that Linux control groups, versions 1 and 2 (used by containers, Slurm and systemd), set for this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace trireme {

struct CgroupLimits {
  std::optional<double> cores;  ///< CPU quota over its period: 1.5 means one and a half cores' time
  std::optional<int64_t> memory_bytes;
};

/// Returns the tightest limits of the process's groups and of their parent groups. A limit is nullopt if no group sets
/// it or if it cannot be read. Tests pass other paths.
CgroupLimits cgroup_limits(const std::filesystem::path& membership = "/proc/self/cgroup",
                           const std::filesystem::path& mount = "/sys/fs/cgroup");

}  // namespace trireme
